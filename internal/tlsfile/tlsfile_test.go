package tlsfile_test

import (
	"bytes"
	"crypto/tls"
	"os"
	"path/filepath"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/fatal"
	"github.com/drawbridge-mcp/drawbridge/internal/redis/redistest"
	"github.com/drawbridge-mcp/drawbridge/internal/tlsfile"
)

// TestARenewedCertificateIsShown renews the certificate of a client in its files: the
// next connection shows it, without a restart.
func TestARenewedCertificateIsShown(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	certificate, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	own := redistest.Certificates(t, dir)
	asked := &tls.CertificateRequestInfo{
		Version:          tls.VersionTLS13,
		SignatureSchemes: []tls.SignatureScheme{tls.ECDSAWithP256AndSHA256, tls.PSSWithSHA256, tls.Ed25519},
	}
	cfg := fatal.Have(tlsfile.LoadForMany(certificate, certificate, key))(t)
	shows := func(what string) {
		t.Helper()
		shown := fatal.Have(cfg.GetClientCertificate(asked))(t)
		if len(shown.Certificate) == 0 || !bytes.Equal(shown.Certificate[0], own.Certificates[0].Certificate[0]) {
			t.Errorf("%s: a server is not shown the newest certificate", what)
		}
	}
	shows("at first")
	own = redistest.Certificates(t, dir)
	shows("renewed")
	fatal.OK(t, os.Remove(key))
	shows("while its key is away")
	asked.AcceptableCAs = [][]byte{[]byte("another")}
	if shown := fatal.Have(cfg.GetClientCertificate(asked))(t); len(shown.Certificate) > 0 {
		t.Error("a server is shown a certificate that it does not want")
	}
	if _, err := tlsfile.LoadForMany(certificate, certificate, key); err == nil {
		t.Error("settings were made without the key")
	}
}
