// Package tlsfile makes settings of TLS out of files that the operator names.
package tlsfile

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"sync/atomic"
)

// Load returns the settings of a client that takes servers whose certificates the
// authorities in one file have signed, and that shows a certificate with a key. Without a
// file of authorities they are those of the system, and without a certificate none is
// shown.
func Load(authorities, certificate, key string) (*tls.Config, error) {
	cfg := &tls.Config{MinVersion: tls.VersionTLS12}
	if authorities != "" {
		data, err := os.ReadFile(authorities) //nolint:gosec // the operator names it
		if err != nil {
			return nil, err
		}
		cfg.RootCAs = x509.NewCertPool()
		if !cfg.RootCAs.AppendCertsFromPEM(data) {
			return nil, fmt.Errorf("%s holds no certificate in PEM", authorities)
		}
	}
	if certificate == "" {
		return cfg, nil
	}
	pair, err := tls.LoadX509KeyPair(certificate, key)
	if err != nil {
		return nil, fmt.Errorf("certificate %s with key %s: %w", certificate, key, err)
	}
	cfg.Certificates = []tls.Certificate{pair}
	return cfg, nil
}

// LoadForMany is Load for many connections. The certificate is read again for each: one
// that was renewed is shown from then on. Where it cannot be read, as while its files are
// being replaced, the last one is shown.
func LoadForMany(authorities, certificate, key string) (*tls.Config, error) {
	cfg, err := Load(authorities, certificate, key)
	if err != nil || certificate == "" {
		return cfg, err
	}
	var last atomic.Pointer[tls.Certificate]
	last.Store(&cfg.Certificates[0])
	cfg.GetClientCertificate = func(asked *tls.CertificateRequestInfo) (*tls.Certificate, error) {
		if pair, err := tls.LoadX509KeyPair(certificate, key); err == nil {
			last.Store(&pair)
		}
		if shown := last.Load(); asked.SupportsCertificate(shown) == nil {
			return shown, nil
		}
		return &tls.Certificate{}, nil // the server wants that of somebody else, or none
	}
	return cfg, nil
}
