package link

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math/big"
	"time"
)

// Digest is the SHA-256 of a certificate. It names a replica as nobody else can.
type Digest [sha256.Size]byte

// Identity is the certificate that a replica has from its start to its end, and its key,
// which never leaves the process.
type Identity struct {
	certificate tls.Certificate
	digest      Digest
}

// certificateLife is for how long a certificate is good. Nobody asks: a certificate
// counts for as long as the replica that made it lives.
const certificateLife = 10 * 365 * 24 * time.Hour

// NewIdentity makes a certificate.
func NewIdentity() (*Identity, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: now.Add(-time.Hour), NotAfter: now.Add(certificateLife),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	made, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, fmt.Errorf("make a certificate: %w", err)
	}
	return &Identity{tls.Certificate{Certificate: [][]byte{made}, PrivateKey: key}, sha256.Sum256(made)}, nil
}

// Digest returns the digest of the certificate, by which others know this replica.
func (i *Identity) Digest() Digest { return i.digest }

// errUnknownPeer says that the other side is no replica that is known.
var errUnknownPeer = errors.New("the certificate is that of no replica")

// config returns how to talk TLS, as either side, to whoever has a certificate whose
// digest is accepted. There is no authority that could sign certificates, and no name to
// check: the digest is all, and whoever shows the certificate has proven that the key is
// theirs.
func (i *Identity) config(accepted func(Digest) bool) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{i.certificate},
		ServerName: "replica", ClientAuth: tls.RequireAnyClientCert, SessionTicketsDisabled: true,
		NextProtos:                  []string{protocol},
		DynamicRecordSizingDisabled: true, // or a request would go in several writes
		InsecureSkipVerify:          true, //nolint:gosec // VerifyConnection checks the one certificate that is accepted
		VerifyConnection: func(state tls.ConnectionState) error {
			switch {
			case !accepted(digestOf(state)):
				return errUnknownPeer
			case state.NegotiatedProtocol != protocol:
				return errForm
			}
			return nil
		},
	}
}

// digestOf returns the digest of the certificate that the other side has shown; no
// certificate has the zero Digest.
func digestOf(state tls.ConnectionState) (d Digest) {
	if len(state.PeerCertificates) == 0 {
		return d
	}
	return sha256.Sum256(state.PeerCertificates[0].Raw)
}
