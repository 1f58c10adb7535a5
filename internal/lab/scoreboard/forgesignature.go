package main

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha512"
	"encoding/asn1"
	"encoding/hex"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/must"
)

// spellings are good tokens in another spelling. Where it concerns what is signed, that
// spelling is signed.
func (s signer) spellings() (all []forgery) {
	good := strings.Split(s.token(s.header(), s.claims()), ".")
	for i, name := range []string{"header", "claims", "signature"} {
		t := good[i]
		for how, text := range map[string]string{
			"padded": t + "=", "padded twice": t + "==", "a letter more": t + "A",
			"a letter less": t[:len(t)-1],
			"line break":    t[:4] + "\n" + t[4:], "carriage return": t + "\r",
			"blank within": t[:4] + " " + t[4:],
			"tab":          t[:4] + "\t" + t[4:], "NUL": t[:4] + "\x00" + t[4:], "plus": t[:4] + "+" + t[5:],
			"slash": t[:4] + "/" + t[5:], "percent": fmt.Sprintf("%%%02x", t[0]) + t[1:],
			"another letter": t[:4] + "é" + t[4:], "twice": t + t, "nothing": "",
		} {
			parts := slices.Clone(good)
			parts[i] = text
			all = append(all, forgery{name + ": " + how, strings.Join(parts, ".")})
			if i < 2 {
				input := parts[0] + "." + parts[1]
				all = append(all, forgery{name + ", signed: " + how, sealed(input, s.sign(input))})
			}
		}
	}
	whole := strings.Join(good, ".")
	for _, text := range []string{
		"." + whole, whole + ".", "." + whole + ".", whole + ".AAAA", whole + "." + whole, good[0] + ".." +
			good[1] + "." + good[2], good[0] + "." + good[1], good[0] + "." + good[2], good[1] + "." +
			good[0] + "." + good[2], "..", ".", good[0],
		`{"payload":"` + good[1] + `","protected":"` + good[0] + `","signature":"` + good[2] +
			`"}`, `{"payload":"` + good[1] + `","signatures":[{"protected":"` + good[0] + `","signature":"` +
			good[2] + `"}]}`,
		`"` + whole + `"`, "Bearer " + whole, whole + "," + whole, whole + ";", strings.ToUpper(whole),
		good[0] + "." + encode(s.claimsWith("sub", "mallory")) + "." + good[2],
		good[0] + ".AAAA.AAAA.AAAA." + good[2], s.header() + "." + s.claims() + "." + good[2],
	} {
		all = append(all, forgery{"as " + text, text})
	}
	return all
}

// signatures are good tokens with another signature.
func (s signer) signatures() (all []forgery) {
	input := encode(s.header()) + "." + encode(s.claims())
	good := s.sign(input)
	size := len(good)
	wrong := map[string][]byte{
		"none": nil, "a zero": {0}, "zeros": make([]byte, size), "ones": bytes.Repeat([]byte{0xff}, size),
		"cut at its end": good[:size-1], "cut at its beginning": good[1:], "a half": good[:size/2],
		"a byte":        good[:1],
		"a zero before": append([]byte{0}, good...), "a zero behind": append(slices.Clone(good), 0),
		"a line break behind": append(slices.Clone(good), '\n'), "twice": append(slices.Clone(good), good...),
		"of nothing": s.sign(""), "of the header": s.sign(encode(s.header())),
		"of the claims": s.sign(encode(s.claims())), "of what is not encoded": s.sign(s.header() + "." +
			s.claims()), "of more": s.sign(input + "."), "hex": []byte(hex.EncodeToString(good)),
		"base64 twice": []byte(encode(string(good))), "very long": make([]byte, 5000),
		"backwards": backwards(good),
	}
	for at := 0; at < size; at += max(1, size/16) {
		for _, bit := range []byte{1, 0x80} {
			changed := slices.Clone(good)
			changed[at] ^= bit
			wrong[fmt.Sprintf("bit %#x of byte %d", bit, at)] = changed
		}
	}
	switch private := s.private.(type) {
	case *ecdsa.PrivateKey:
		s.points(private, input, wrong)
	case *rsa.PrivateKey:
		s.paddings(private, input, wrong)
	case ed25519.PrivateKey:
		edwards(private, input, wrong)
	}
	if s.hash != 0 {
		wrong["the hash"] = s.sum(input)
	}
	for what, signature := range wrong {
		all = append(all, forgery{"signature: " + what, sealed(input, signature)})
	}
	return all
}

func backwards(text []byte) []byte {
	text = slices.Clone(text)
	slices.Reverse(text)
	return text
}

// fill writes a number as bytes of that length, or more if it has more.
func fill(n *big.Int, size int) []byte { return n.FillBytes(make([]byte, max(size, (n.BitLen()+7)/8))) }

// points adds ECDSA signatures.
func (s signer) points(private *ecdsa.PrivateKey, input string, wrong map[string][]byte) {
	n, one, size := private.Curve.Params().N, big.NewInt(1), s.half()
	odd := map[string]*big.Int{
		"0": new(big.Int), "1": one, "n-1": new(big.Int).Sub(n, one), "n": n, "n+1": new(big.Int).Add(n, one),
		"p": private.Curve.Params().P, "all ones": new(big.Int).Sub(new(big.Int).Lsh(one, uint(8*size)), one),
	}
	good := s.sign(input)
	r, t := new(big.Int).SetBytes(good[:size]), new(big.Int).SetBytes(good[size:])
	for x, rx := range odd {
		for y, ty := range odd {
			wrong["r="+x+" s="+y] = append(fill(rx, size), fill(ty, size)...)
		}
		wrong["r="+x] = append(fill(rx, size), good[size:]...)
		wrong["s="+x] = append(slices.Clone(good[:size]), fill(rx, size)...)
	}
	maps.Copy(wrong, map[string][]byte{
		"in DER":             must.Have(asn1.Marshal(struct{ R, S *big.Int }{r, t})),
		"r and s exchanged":  append(slices.Clone(good[size:]), good[:size]...),
		"r+n":                append(fill(new(big.Int).Add(r, n), size), good[size:]...),
		"s+n":                append(slices.Clone(good[:size]), fill(new(big.Int).Add(t, n), size)...),
		"both a byte longer": append(fill(r, size+1), fill(t, size+1)...),
		"-r":                 append(fill(new(big.Int).Sub(n, r), size), good[size:]...),
	})
	for _, other := range signers() {
		if _, is := other.private.(*ecdsa.PrivateKey); is && other.algorithm != s.algorithm {
			wrong["by the curve of "+other.algorithm] = other.sign(input)
			wrong["of the hash of "+other.algorithm] = signer{
				s.algorithm, other.hash, private, s.person,
			}.sign(input)
		}
	}
}

// paddings adds RSA signatures: numbers that are none, and what a signer would have made
// who pads in another way.
func (s signer) paddings(private *rsa.PrivateKey, input string, wrong map[string][]byte) {
	n, one, size := private.N, big.NewInt(1), private.Size()
	good := new(big.Int).SetBytes(s.sign(input))
	for what, number := range map[string]*big.Int{
		"1": one, "n-1": new(big.Int).Sub(n, one), "n": n,
		"n+1": new(big.Int).Add(n, one), "itself and n": new(big.Int).Add(good, n),
		"n without it": new(big.Int).Sub(n, good),
	} {
		wrong[what] = fill(number, size)
	}
	if s.algorithm[0] == 'P' {
		for _, salt := range []int{1, s.hash.Size() - 1, s.hash.Size() + 1, size - s.hash.Size() - 2} {
			wrong[fmt.Sprintf("salt of %d bytes", salt)] = must.Have(rsa.SignPSS(rand.Reader, private, s.hash,
				s.sum(input), &rsa.PSSOptions{SaltLength: salt}))
		}
		return
	}
	sum, name := s.sum(input), info(s.hash)
	whole := slices.Concat(name, sum)
	pad := func(kind byte, filling byte, text, behind []byte) []byte {
		padded := append([]byte{0, kind}, bytes.Repeat([]byte{filling}, size-3-len(text)-len(behind))...)
		return append(append(append(padded, 0), text...), behind...)
	}
	padded := map[string][]byte{
		"the hash alone":        pad(1, 0xff, sum, nil),
		"unpadded":              whole,
		"padding of encryption": pad(2, 0xff, whole, nil),
		"padding of zeros":      pad(1, 0, whole, nil),
		"padding of type 0":     pad(0, 0xff, whole, nil),
		"a byte behind":         pad(1, 0xff, whole, []byte{0}),
		"most of it behind":     pad(1, 0xff, whole, make([]byte, size-3-len(whole)-8)),
		"a hash of zeros":       pad(1, 0xff, append(slices.Clone(name), make([]byte, len(sum))...), nil),
	}
	for _, other := range []crypto.Hash{crypto.SHA256, crypto.SHA384, crypto.SHA512} {
		if other != s.hash {
			padded["the name of the hash "+other.String()] = pad(1, 0xff, append(info(other), sum...), nil)
		}
	}
	for at, b := range name {
		what := fmt.Sprintf("the name of the hash, byte %d ", at)
		for how, put := range map[string][]byte{"changed": {b ^ 1}, "missing": nil, "twice": {b, b}} {
			padded[what+how] = pad(1, 0xff, slices.Replace(slices.Clone(whole), at, at+1, put...), nil)
		}
	}
	for what, text := range padded { // as if the signer had padded so
		wrong[what] = fill(new(big.Int).Exp(new(big.Int).SetBytes(text), private.D, n), size)
	}
}

// info is what PKCS #1 writes before a hash: RFC 8017 section 9.2, note 1.
func info(hash crypto.Hash) []byte {
	last := map[crypto.Hash]byte{crypto.SHA256: 1, crypto.SHA384: 2, crypto.SHA512: 3}[hash]
	size := byte(hash.Size()) //nolint:gosec // G115: at most 64
	return []byte{0x30, 17 + size, 0x30, 13, 6, 9, 0x60, 0x86, 0x48, 1, 0x65, 3, 4, 2, last, 5, 0, 4, size}
}

// edwards adds EdDSA signatures.
func edwards(private ed25519.PrivateKey, input string, wrong map[string][]byte) {
	good := ed25519.Sign(private, []byte(input))
	order, _ := new(big.Int).SetString(
		"7237005577332262213973186563042994240857116359379907606001950938285454250989", 10)
	number := func(n *big.Int) []byte { return backwards(fill(n, 32)) } // the other way round than most
	more := new(big.Int).SetBytes(backwards(good[32:]))
	for times := range 8 { // the same number, were it not for its size
		if more.Add(more, order); more.BitLen() <= 256 {
			what := fmt.Sprintf("S and %d times the order", times+1)
			wrong[what] = append(slices.Clone(good[:32]), number(more)...)
		}
	}
	small := [][]byte{
		number(big.NewInt(1)), make([]byte, 32), append(make([]byte, 31), 0x80),
		bytes.Repeat([]byte{0xff}, 32), append([]byte{0xec}, append(bytes.Repeat([]byte{0xff}, 30), 0x7f)...),
	}
	for i, point := range small {
		for what, s := range map[string][]byte{
			"0": make([]byte, 32), "1": number(big.NewInt(1)),
			"the order": number(order), "as it was": good[32:],
		} {
			wrong[fmt.Sprintf("R of small order %d, S %s", i, what)] = append(slices.Clone(point), s...)
		}
	}
	sum := sha512.Sum512([]byte(input))
	wrong["of the hash"] = must.Have(private.Sign(nil, sum[:], &ed25519.Options{Hash: crypto.SHA512}))
	wrong["with a context"] = must.Have(private.Sign(nil, []byte(input), &ed25519.Options{Context: "x"}))
}
