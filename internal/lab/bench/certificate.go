package main

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
	"time"
)

// writeCertificates makes an authority of this run alone and a certificate of it for
// 127.0.0.1, and writes the authority's certificate, the other and its key as PEM.
func writeCertificates(authority, certificate, key string) error {
	parentKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	ownKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
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
	parentText, err := x509.CreateCertificate(rand.Reader, parent, parent, &parentKey.PublicKey, parentKey)
	if err != nil {
		return err
	}
	ownText, err := x509.CreateCertificate(rand.Reader, own, parent, &ownKey.PublicKey, parentKey)
	if err != nil {
		return err
	}
	keyText, err := x509.MarshalPKCS8PrivateKey(ownKey)
	if err != nil {
		return err
	}
	return errors.Join(
		writePEM(authority, "CERTIFICATE", parentText),
		writePEM(certificate, "CERTIFICATE", ownText),
		writePEM(key, "PRIVATE KEY", keyText),
	)
}

func writePEM(path, kind string, text []byte) error {
	return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: text}), 0o600)
}
