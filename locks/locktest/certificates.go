package locktest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Authority makes certificates for one test.
type Authority struct {
	CA   string // path of its own certificate
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	dir  string
}

// NewAuthority makes an authority that nobody has heard of.
func NewAuthority(tb testing.TB, name string) *Authority {
	tb.Helper()
	a := &Authority{dir: tb.TempDir()}
	a.CA, _ = a.Issue(tb, name)
	return a
}

// Issue makes a certificate and its key, for a server at the given addresses or
// for the client of that name.
func (a *Authority) Issue(tb testing.TB, name string, ips ...net.IP) (certFile, keyFile string) {
	tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, IPAddresses: ips,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: a.cert == nil, BasicConstraintsValid: true,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	parent, signer := a.cert, a.key
	if parent == nil {
		template.KeyUsage = x509.KeyUsageCertSign
		parent, signer = template, key
		a.cert, a.key = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		tb.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		tb.Fatal(err)
	}
	certFile, keyFile = filepath.Join(a.dir, name+".crt"), filepath.Join(a.dir, name+".key")
	write := func(file, kind string, bytes []byte) error {
		return os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: bytes}), 0o600)
	}
	if err := errors.Join(write(certFile, "CERTIFICATE", der), write(keyFile, "PRIVATE KEY", keyDER)); err != nil {
		tb.Fatal(err)
	}
	return certFile, keyFile
}
