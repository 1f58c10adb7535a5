package config

import (
	"net"
	"net/url"
)

// Redis is what the file says under redis. The zero Redis is none: there is one replica.
type Redis struct {
	Addresses []string // url: host:port
}

// redis reads how to reach the server that replicas share.
func (r *reader) redis(cfg *Config, n *node) {
	r.object(n, "redis", fields{
		"url": func(n *node) { cfg.Redis.Addresses = r.redisURL(n) },
	})
	r.need(n, "redis", "url")
	r.later = append(r.later, func() { r.checkReplicas(cfg, n) })
}

// warnRedis warns of replicas that share limits and do not know how many they are: while Redis does not answer, each of them
// would allow all of every limit.
func (r *reader) warnRedis() {
	if at := r.root.member("redis"); at != nil && r.root.member("replicas") == nil {
		r.warn(codeNoReplicas, at, nil, "replicas is not set: while Redis does not answer, each replica allows all of every limit, as if it were alone; write how many there are at most")
	}
}

// redisURL returns the address that a URL of the scheme redis names.
func (r *reader) redisURL(n *node) []string {
	text := r.text(n)
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "redis" || u.Hostname() == "" {
		r.fault(n, "%q is no address of Redis; write redis://host:6379", text)
		return nil
	}
	port := u.Port()
	if port == "" {
		port = "6379"
	}
	return []string{net.JoinHostPort(u.Hostname(), port)}
}
