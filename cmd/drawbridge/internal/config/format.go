package config

import (
	"log/slog"

	"github.com/drawbridge-mcp/drawbridge/internal/seal"
)

// parse returns what the text of the config file says. The error is a RefusedError. Warnings are looked for only in a
// config without problems, because a warning about a setting that must change anyway is noise.
func (r *reader) parse(data []byte) (*Config, error) {
	cfg := Default()
	cfg.File = r.file
	if r.root = r.parseYAML(data); r.root != nil {
		r.config(cfg, r.root)
	}
	if len(r.problems) > 0 {
		return nil, RefusedError(sorted(r.problems))
	}
	cfg.Sources, cfg.Included = r.sources, r.included
	r.warnAll(cfg)
	r.known.keep(cfg)
	return cfg, nil
}

// finish runs the checks that need the whole config but its tenants, for example whether a tenant that an issuer names
// exists. They wait until every key has been read because a file may have its keys in any order.
func (r *reader) finish(cfg *Config) {
	r.index = r.newIndex(cfg)
	for _, check := range r.later {
		check()
	}
	r.later = nil
}

// config reads the top level of the file. The order of the keys means nothing, so whatever depends on several keys is
// looked at after all keys have been read. The tenants come last: each is read, checked and forgotten before the next.
func (r *reader) config(cfg *Config, root *node) {
	known := r.topFields(cfg)
	included := r.includes(root, known)
	r.faultBroken(root)
	if !included {
		return
	}
	complete := r.object(root, "the config", known) && r.need(root, "the config", "issuers", "tenants", "servers")
	if complete {
		cfg.Audit.File = r.auditFile(cfg)
		r.checkAddresses(cfg)
		r.finish(cfg)
	}
	if n := root.member("tenants"); n != nil {
		r.tenants(cfg, n, complete)
	}
}

// topFields returns the keys of the top level, each with the function that reads its value into cfg. Which keys exist
// is said here alone; an included file and LoadSigners accept a part of them.
func (r *reader) topFields(cfg *Config) fields {
	known := r.networkFields(cfg)
	known["issuers"] = func(n *node) { r.issuers(cfg, n) }
	known["tenants"] = func(*node) {} // read last, see config
	known["servers"] = func(n *node) { r.servers(cfg, n) }
	known["sessions"] = func(n *node) { r.sessions(&cfg.Sessions, n) }
	known["audit"] = func(n *node) { r.audit(cfg, n) }
	known["log"] = func(n *node) { r.log(cfg, n) }
	known["limits"] = func(n *node) { r.limits(&cfg.Limits, n) }
	known["lists"] = func(n *node) {
		r.object(n, "lists", fields{"page_size": func(n *node) { cfg.PageSize = r.integer(n, 1, 10000) }})
	}
	known["replicas"] = func(n *node) {
		if cfg.Replicas = r.integer(n, 1, 10000); cfg.Replicas > 1 {
			r.later = append(r.later, func() { r.checkReplicas(cfg, n) })
		}
	}
	known["key_sets_dir"] = func(n *node) {
		cfg.KeySetsDir = r.path(n)
		r.later = append(r.later, func() { r.checkKeySetsDir(cfg, n) })
	}
	known["redis"] = func(n *node) { r.redis(cfg, n) }
	known["link"] = func(n *node) { r.link(cfg, n) }
	known["acknowledge"] = r.acknowledge
	// The included files were joined before any key is read, see includes.
	known["include"] = func(*node) {}
	return known
}

func (r *reader) sessions(s *Sessions, n *node) {
	r.object(n, "sessions", fields{
		"idle":      func(n *node) { s.Idle = r.duration(n) },
		"max_age":   func(n *node) { s.MaxAge = r.duration(n) },
		"keys_file": func(n *node) { s.KeysFile, s.Keys = r.path(n), r.sealKeys(n) },
		"events": func(n *node) {
			r.object(n, "events", fields{
				"count": func(n *node) { s.EventCount = r.integer(n, 1, 1_000_000) },
				"bytes": func(n *node) { s.EventBytes = r.size(n) },
				"age":   func(n *node) { s.EventAge = r.duration(n) },
			})
		},
	})
}

// sealKeys returns the keys in the file of keys_file. It also makes a ring of them and drops it, so that keys that the
// gateway could not start with are reported here, with their place.
func (r *reader) sealKeys(n *node) [][]byte {
	data := r.read(n)
	if data == nil {
		return nil
	}
	keys, err := seal.ParseKeys(data)
	if err == nil {
		_, err = seal.NewRing(keys...)
	}
	if err != nil {
		r.fault(n, "keys_file: %s", err)
	}
	return keys
}

// checkReplicas reports several replicas without common keys: each process would make its own at random, and none could
// open what another has sealed.
func (r *reader) checkReplicas(cfg *Config, n *node) {
	if cfg.Sessions.KeysFile == "" {
		r.fault(n, "several replicas need a common sessions.keys_file, the same file at each; make it with: openssl rand -base64 32 > session.keys")
	}
}

// checkKeySetsDir reports key sets that are to outlive the process without keys that do: nobody could open them again.
func (r *reader) checkKeySetsDir(cfg *Config, n *node) {
	if cfg.Sessions.KeysFile == "" {
		r.fault(n, "key sets are sealed with the keys of sessions.keys_file, which is not there; make it with: openssl rand -base64 32 > session.keys")
	}
}

func (r *reader) audit(cfg *Config, n *node) {
	r.object(n, "audit", fields{
		// A lone - means standard output. It is no file name, so it must not be joined to the directory of the config.
		"file": func(n *node) {
			if cfg.Audit.File = r.path(n); n.text == "-" {
				cfg.Audit.File = "-"
			}
		},
		"when_full": func(n *node) { cfg.Audit.Drop = r.choice(n, "block", "drop") == "drop" },
		"sync":      func(n *node) { cfg.Audit.Always = r.choice(n, "always", "interval") == "always" },
	})
}

// auditFile returns where the audit records go: the file of audit.file or, when the config names none, audit.jsonl in
// the directory of the config file.
func (r *reader) auditFile(cfg *Config) string {
	if cfg.Audit.File != "" {
		return cfg.Audit.File
	}
	return r.path(&node{kind: scalar, file: r.file, text: "audit.jsonl"})
}

func (r *reader) log(cfg *Config, n *node) {
	r.object(n, "log", fields{
		"level": func(n *node) {
			if err := cfg.LogLevel.UnmarshalText([]byte(r.choice(n, "debug", "info", "warn", "error"))); err != nil {
				cfg.LogLevel = slog.LevelInfo // reported by choice
			}
		},
		"format": func(n *node) { cfg.LogFormat = r.choice(n, "json", "text") },
	})
}

func (r *reader) limits(l *Limits, n *node) {
	r.object(n, "limits", fields{
		"max_body":            func(n *node) { l.MaxBody = r.size(n) },
		"max_calls":           func(n *node) { l.MaxCalls = r.integer(n, 1, 1_000_000) },
		"max_streams":         func(n *node) { l.MaxStreams = r.integer(n, 1, 1_000_000) },
		"max_connections":     func(n *node) { l.MaxConnections = r.integer(n, 1, 10_000_000) },
		"address_connections": func(n *node) { l.AddressConnections = r.integer(n, 1, 10_000_000) },
		"read_timeout":        func(n *node) { l.ReadTimeout = r.duration(n) },
		"heartbeat":           func(n *node) { l.Heartbeat = r.duration(n) },
		"memory":              func(n *node) { l.Memory = r.memory(n) },
	})
}

// minMemory is the least that limits.memory may be, in bytes. With many calls at once, half of it is set aside for their
// places, and one user may hold a quarter of the rest: 512 KiB, so that a request and an answer of 64 KiB each pass,
// which are held several times over on their way.
const minMemory = 4 << 20

// memory returns the size of limits.memory. A size without a unit is bytes, so that whoever forgets the unit asks for
// far too little, and would find out only when requests are refused.
func (r *reader) memory(n *node) int64 {
	size := r.size(n)
	if size > 0 && size < minMemory {
		r.fault(n, "%s is too little: limits.memory is at least 4MiB, so that one user has room for messages of 64 KiB; say 64MiB or more, or leave it out, and it follows from what the process may have", n.raw)
	}
	return size
}
