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
	cfg := fatal.Have(tlsfile.Load(certificate, certificate, key))(t)
	for range 2 {
		shown := fatal.Have(cfg.GetClientCertificate(&tls.CertificateRequestInfo{}))(t)
		if !bytes.Equal(shown.Certificate[0], own.Certificates[0].Certificate[0]) {
			t.Error("a server is shown another certificate than the files have")
		}
		own = redistest.Certificates(t, dir)
	}
	fatal.OK(t, os.Remove(key))
	if _, err := cfg.GetClientCertificate(&tls.CertificateRequestInfo{}); err == nil {
		t.Error("got no error without the key")
	}
	if _, err := tlsfile.Load(certificate, certificate, key); err == nil {
		t.Error("settings were made without the key")
	}
}
