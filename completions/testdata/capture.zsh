# capture.zsh SCRIPT LINE OUT: writes to OUT what zsh offers after LINE, from an
# interactive shell of its own, since only that completes.
zmodload zsh/zpty
export LOCKRUN_TEST_SCRIPT=$1 LOCKRUN_TEST_OUT=$3 TERM=dumb
zpty shell zsh -f -i
zpty -w shell "source ${0:h}/setup.zsh"
zpty -r shell line '*SETUP*'
zpty -n -w shell "$2"$'\t\x18'
while zpty -r shell line; do :; done
