# The released binary as an image. goreleaser builds it for each platform; by hand:
#
#   CGO_ENABLED=0 go build -trimpath -tags urfave_cli_no_docs -o linux/amd64/lockrun .
#   docker build --build-arg TARGETPLATFORM=linux/amd64 -t lockrun .
#
# Into a job's image it is copied:
#
#   COPY --from=lockrun /lockrun /usr/local/bin/lockrun
FROM alpine:3.22 AS base

# For an init container that copies lockrun into a volume: its argument is where to.
FROM base AS init
ARG TARGETPLATFORM
COPY ${TARGETPLATFORM}/lockrun /lockrun
USER 65532:65532
ENTRYPOINT ["/bin/cp", "/lockrun"]

# Nothing but lockrun and the authorities that it trusts. It serves for init,
# status, doctor and the like; there is no command in it to run.
FROM scratch
ARG TARGETPLATFORM
COPY --from=base /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY ${TARGETPLATFORM}/lockrun /lockrun
USER 65532:65532
ENTRYPOINT ["/lockrun"]
