package config

import (
	"net"
	"strings"
)

// link reads where other replicas reach this one.
func (r *reader) link(n *node) {
	r.object(n, "link", fields{
		"listen":  into(&r.cfg.Link.Listen, r.linkListen),
		"address": into(&r.cfg.Link.Address, r.linkAddress),
	})
}

// linkListen returns an address to listen on, of which the host may be left out.
func (r *reader) linkListen(n *node) string {
	return parsed(r, n, "an address and a port, like 10.0.0.5:9092, or a port alone, like :9092",
		func(s string) (string, error) {
			host, port, err := net.SplitHostPort(s)
			if err != nil || host != "" && !isAddress(host) || !isNumber(port) || port != "0" &&
				!validPort(port) {
				return "", errPort
			}
			return s, nil
		}, nil)
}

// linkAddress returns an address or a name that others connect to.
func (r *reader) linkAddress(n *node) string {
	return parsed(r, n, "an address or a name, with or without a port, like 10.0.0.5 or pod-0.example:9092",
		func(s string) (string, error) {
			host, port, err := net.SplitHostPort(s)
			if err != nil { // without a port
				s = strings.Trim(s, "[]")
				host, port = s, "1"
			}
			if host == "" || !isAddress(host) && strings.ContainsAny(host, ":/?#@ []") || !isNumber(port) ||
				!validPort(port) {
				return "", errPort
			}
			return s, nil
		}, nil)
}
