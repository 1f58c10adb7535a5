package auth

import "math/big"

// rocaGenerator and rocaLast describe the keys that a library in smart cards and TPMs of
// one maker generated for years. Its primes have the form k·M + (65537^a mod M), where M
// is the product of the first primes; of keys of 1984 bits and more, at least of all up
// to 701. Such a modulus can be factored with what a normal attacker can pay.
// CVE-2017-15361; Nemec, Sys, Svenda, Klinec, Matyas: "The Return of Coppersmith's
// Attack" (CCS 2017), sections 2.1 and 2.3.
const (
	rocaGenerator = 65537
	rocaLast      = 701
)

// rocaWeak tells whether a modulus of at least 1984 bits has the form that the broken
// library gives it: modulo each of the first primes it is a power of 65537, as its two
// factors are. Of other moduli one in 2^169 has it by chance.
func rocaWeak(modulus *big.Int) bool {
	rest := new(big.Int)
	for p := int64(3); p <= rocaLast; p += 2 {
		divisor := big.NewInt(p)
		if divisor.ProbablyPrime(0) && !isPower(rest.Mod(modulus, divisor).Int64(), p) {
			return false
		}
	}
	return true
}

// isPower tells whether n is a power of rocaGenerator modulo p.
func isPower(n, p int64) bool {
	for power := int64(1); ; {
		if power == n {
			return true
		}
		if power = power * rocaGenerator % p; power == 1 {
			return false
		}
	}
}
