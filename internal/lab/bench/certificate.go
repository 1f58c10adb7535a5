package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/must"
)

// writeCertificates makes an authority of this run alone and a certificate of it for
// 127.0.0.1, and writes the authority's certificate, the other and its key as PEM.
func writeCertificates(authority, certificate, key string) {
	parentKey := must.Have(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	ownKey := must.Have(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	now := time.Now()
	parent := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "bench"}, NotBefore: now.Add(-time.Hour),
		NotAfter: now.Add(24 * time.Hour),
		IsCA:     true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	own := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "upstream"}, NotBefore: parent.NotBefore,
		NotAfter: parent.NotAfter,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	for _, file := range []struct {
		path, kind string
		text       []byte
	}{
		{
			authority, "CERTIFICATE",
			must.Have(x509.CreateCertificate(rand.Reader, parent, parent, &parentKey.PublicKey, parentKey)),
		},
		{
			certificate, "CERTIFICATE",
			must.Have(x509.CreateCertificate(rand.Reader, own, parent, &ownKey.PublicKey, parentKey)),
		},
		{key, "PRIVATE KEY", must.Have(x509.MarshalPKCS8PrivateKey(ownKey))},
	} {
		must.OK(os.WriteFile(file.path, pem.EncodeToMemory(&pem.Block{Type: file.kind, Bytes: file.text}), 0o600))
	}
}
