package config

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/tlsfile"
)

// Password returns the content of PasswordFile as it is now.
func (r Redis) Password() (string, error) { return password(r.PasswordFile) }

// SentinelPassword returns the content of SentinelPasswordFile as it is now.
func (r Redis) SentinelPassword() (string, error) { return password(r.SentinelPasswordFile) }

// password returns what a file holds, without the line's end.
func password(file string) (string, error) {
	if file == "" {
		return "", nil
	}
	data, err := os.ReadFile(file) //nolint:gosec // the operator names it
	if err != nil {
		return "", err
	}
	return checkPassword(data)
}

// checkPassword returns the password that a file with that content holds.
func checkPassword(data []byte) (string, error) {
	text := string(bytes.TrimRight(data, "\r\n"))
	switch {
	case text == "":
		return "", errors.New("the file of the password is empty")
	case strings.ContainsAny(text, "\r\n\x00"):
		return "", errors.New("the file of the password has more than one line")
	}
	return text, nil
}

// TLS returns how to connect with TLS; nil: without. It reads the files.
func (r Redis) TLS() (*tls.Config, error) {
	if !r.Secure {
		return nil, nil //nolint:nilnil // nil is without TLS
	}
	return tlsfile.LoadForMany(r.CAFile, r.CertificateFile, r.CertificateSecret)
}

// redis reads how to reach the server that replicas share.
func (r *reader) redis(n *node) {
	to := &r.cfg.Redis
	r.cfg.positions["redis"] = n.problem("")
	secret := func(n *node) string { fromFile(r, checkPassword)(n); return r.path(n) }
	file := func(n *node) string { r.read(n); return r.path(n) }
	before := len(r.problems)
	r.object(n, "redis", fields{
		"url":                    func(n *node) { r.redisURL(to, n) },
		"user":                   into(&to.User, r.text),
		"password_file":          into(&to.PasswordFile, secret),
		"sentinel_user":          into(&to.SentinelUser, r.text),
		"sentinel_password_file": into(&to.SentinelPasswordFile, secret),
		"patience": into(&to.Patience, bounded(r, r.duration, leastPatience, mostPatience,
			fmt.Sprintf("patience is %v to %v", leastPatience, mostPatience))),
		"memory": into(&to.Memory, r.sizeFrom(leastRedisMemory, "memory is 16MiB at least")),
		"ca_file": func(n *node) {
			held := sha256.Sum256(r.read(n))
			to.CAFile, to.Authorities = r.path(n), held[:]
		},
		"certificate_file":     into(&to.CertificateFile, file),
		"certificate_key_file": into(&to.CertificateSecret, file),
	})
	if r.need(n, "redis", "url") && len(r.problems) == before {
		r.checkRedis(to, n)
	}
}

// Bounds of redis.patience: less is missed by a pause of a busy machine, and more would
// hold up every request while Redis hangs.
const (
	leastPatience = 10 * time.Millisecond
	mostPatience  = 10 * time.Second
)

// leastRedisMemory is the least of redis.memory: with less, a replica could hardly keep
// one answer.
const leastRedisMemory = 16 << 20

// checkRedis reports keys that do not go together. It is called if each of them is right.
func (r *reader) checkRedis(to *Redis, n *node) {
	without := func(is bool, name, text string) wrong {
		return wrong{!is && n.member(name) != nil, n.member(name), name + text}
	}
	needs := func(name, other string) wrong {
		return without(n.member(other) != nil, name, " needs "+other)
	}
	if r.faultFirst(
		needs("user", "password_file"), needs("sentinel_user", "sentinel_password_file"),
		needs("certificate_file", "certificate_key_file"), needs("certificate_key_file", "certificate_file"),
		without(to.Secure, "ca_file", " goes with TLS: write rediss:// in url"),
		without(to.Secure, "certificate_file", " goes with TLS: write rediss:// in url")) {
		return
	}
	r.faultFirst(without(to.Master != "", "sentinel_password_file",
		" goes with redis+sentinel:// in url"))
	if _, err := to.TLS(); err != nil {
		r.fault(n, "%s", err)
	}
}

// urlForms is what may stand in redis.url.
const urlForms = "redis://host:6379, redis+sentinel://host:26379,host:26379/master or " +
	"redis+cluster://host:6379,host:6379; rediss for TLS"

// redisForm has the parts of an address: TLS, kind, hosts, and what follows them.
var redisForm = regexp.MustCompile(`^redis(s?)(|\+sentinel|\+cluster)://([^/?#]*)/?([^?#]*)$`)

// redisURL reads the address of a server, of sentinels or of a cluster. Its problems
// never repeat the text, which may hold a password.
func (r *reader) redisURL(to *Redis, n *node) {
	text := r.text(n)
	parts := redisForm.FindStringSubmatch(text)
	if text == "" || r.faultFirst(
		wrong{
			strings.Contains(text, "@"), n,
			"no user and no password stand in url; use user and password_file",
		},
		wrong{parts == nil, n, "this is no address of Redis; write " + urlForms}) {
		return
	}
	kind, port := parts[2], "6379"
	if kind == "+sentinel" {
		port = "26379"
	}
	to.Secure, to.Cluster = parts[1] != "", kind == "+cluster"
	for host := range strings.SplitSeq(parts[3], ",") {
		address, ok := redisAddress(host, port)
		if !ok {
			r.fault(n, "a host of url is none; write %s", urlForms)
			return
		}
		to.Addresses = append(to.Addresses, address)
	}
	if kind == "" && len(to.Addresses) > 1 {
		r.fault(n, "one server has one address; write redis+sentinel:// or redis+cluster:// for several")
		return
	}
	r.redisPath(to, n, kind, parts[4])
}

// redisPath reads what follows the hosts: the name of the master at sentinels, and the
// number of the database.
func (r *reader) redisPath(to *Redis, n *node, kind, path string) {
	number := path
	if kind == "+sentinel" {
		to.Master, number, _ = strings.Cut(path, "/")
		if to.Master == "" {
			r.fault(n, "url lacks what the sentinels call the master: redis+sentinel://host:26379/master")
			return
		}
	}
	if number == "" {
		return
	}
	database, err := strconv.Atoi(number)
	r.faultFirst(
		wrong{err != nil || database < 0, n, "what follows the hosts of url is no number of a database"},
		wrong{to.Cluster && database != 0, n, "a cluster has no databases; leave the number out"})
	to.Database = database
}

// redisAddress returns host:port of a host with or without a port.
func redisAddress(host, port string) (string, bool) {
	u, err := url.Parse("redis://" + host)
	if err != nil || u.Hostname() == "" || u.Host != host {
		return "", false
	}
	port = cmp.Or(u.Port(), port)
	return net.JoinHostPort(u.Hostname(), port), validPort(port)
}
