package auth_test

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"strings"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/auth"
)

// rocaModulus returns a modulus of so many bits as the broken library makes them: from
// primes k·M + (65537^a mod M), M being the product of as many of the first primes as the
// library takes for that length.
func rocaModulus(bits, primes int) *big.Int {
	product := big.NewInt(1)
	for p := int64(2); primes > 0; p++ {
		if n := big.NewInt(p); n.ProbablyPrime(0) {
			product.Mul(product, n)
			primes--
		}
	}
	n := big.NewInt(1)
	for n.BitLen() != bits {
		n.Mul(rocaPrime(bits/2, product), rocaPrime(bits/2, product))
	}
	return n
}

// rocaPrime returns a prime, or if it is long, a number of the same form: to find one
// would take too long here.
func rocaPrime(bits int, product *big.Int) *big.Int {
	bound := new(big.Int).Lsh(big.NewInt(1), uint(bits))
	for {
		a := made(rand.Int(rand.Reader, product))
		k := made(rand.Int(rand.Reader, new(big.Int).Div(bound, product)))
		p := new(big.Int).Exp(big.NewInt(65537), a, product)
		p.Add(p, k.Mul(k, product))
		if p.BitLen() == bits && (bits > 1024 || p.ProbablyPrime(0)) {
			return p
		}
	}
}

// TestRSAKeyOfCVE201715361 refuses keys that can be factored, wherever they come from.
func TestRSAKeyOfCVE201715361(t *testing.T) {
	for _, size := range []struct{ bits, primes int }{{2048, 126}, {3072, 126}, {4096, 225}} {
		public := &rsa.PublicKey{N: rocaModulus(size.bits, size.primes), E: 65537}
		text := pem.EncodeToMemory(&pem.Block{
			Type:  "PUBLIC KEY",
			Bytes: made(x509.MarshalPKIXPublicKey(public)),
		})
		_, err := auth.ParseKeys(text)
		expectROCA(t, fmt.Sprintf("%d bits in a PEM file", size.bits), err)
		for name, change := range map[string]func(*auth.Issuer){
			"as a key": func(i *auth.Issuer) { i.Keys = []auth.Key{{Public: public}} },
			"in a file": func(
				i *auth.Issuer,
			) {
				i.JWKS = keySet(auth.Key{ID: "weak", Public: public})
			},
			"in a file, another": func(
				i *auth.Issuer,
			) {
				i.JWKS = keySet(keyOf("good", rsaKey()), auth.Key{ID: "weak", Public: public})
			},
		} {
			issuer := acme(auth.Key{}, "RS256")
			issuer.Keys = nil
			change(&issuer)
			_, err := auth.New(auth.Config{Issuers: []auth.Issuer{issuer}})
			expectROCA(t, fmt.Sprintf("%d bits %s", size.bits, name), err)
		}
	}
}

func expectROCA(t *testing.T, what string, err error) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), "CVE-2017-15361") {
		t.Errorf("%s: got %v, want it refused by the name of the fault", what, err)
	}
}

// TestOrdinaryModuliAreNotRefused shows that no key is refused by chance. It draws odd
// numbers: a key's modulus is one without small factors, so these are the harder test.
func TestOrdinaryModuliAreNotRefused(t *testing.T) {
	product := big.NewInt(1) // of all primes before 701
	for p := int64(2); p < 701; p++ {
		if prime := big.NewInt(p); prime.ProbablyPrime(0) {
			product.Mul(product, prime)
		}
	}
	drawn := 4000
	if testing.Short() {
		drawn = 400
	}
	for i := range drawn {
		bits := []int{2048, 3072, 4096}[i%3]
		n := made(rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), uint(bits-1))))
		n.SetBit(n, bits-1, 1).SetBit(n, 0, 1)
		if i%20 == 0 { // nearly weak: one of the small remainders is off
			n = nearlyWeak(n, product)
		}
		der := made(x509.MarshalPKIXPublicKey(&rsa.PublicKey{N: n, E: 65537}))
		if _, err := auth.ParseKeys(pem.EncodeToMemory(&pem.Block{
			Type:  "PUBLIC KEY",
			Bytes: der,
		})); err != nil {
			t.Fatalf("modulus %x: %v", n, err)
		}
	}
	if _, err := auth.New(auth.Config{Issuers: []auth.Issuer{acme(keyOf("", rsaKey()),
		"RS256")}}); err != nil {
		t.Error(err)
	}
}

// nearlyWeak returns a number near n that is 1 modulo product, as 65537^0 is, and a
// multiple of 701.
func nearlyWeak(n, product *big.Int) *big.Int {
	near := new(big.Int).Sub(n, new(big.Int).Mod(n, product))
	near.Add(near, big.NewInt(1))
	for last := big.NewInt(701); new(big.Int).Mod(near, last).Sign() != 0; {
		near.Add(near, product)
	}
	return near
}
