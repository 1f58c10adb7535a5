package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/auth/accesskey"
	"github.com/drawbridge-mcp/drawbridge/auth/signin/clients"
	"github.com/drawbridge-mcp/drawbridge/cmd/drawbridge/internal/config"
	"github.com/drawbridge-mcp/drawbridge/internal/store"
)

// keysHelp is the help of the command keys.
var keysHelp = help{
	"(create -tenant T -subject S [-scopes S,S] [-ttl 90d] | list [-tenant T] | revoke ID) [-config F]",
	"Looks after access keys, which machines send in the place of tokens; access_keys: on in the config " +
		"lets them in.\n" +
		"create prints a new key once: nobody can find it out again. list says which there are and when " +
		"each was used last, to the minute. revoke ends one, named by its id or by the key itself, at " +
		"every replica within a second.\n" +
		"Exit 0 when it is done, 1 when not, 2 when the config or the command line is refused.",
}

// keysCommand is the command keys.
func keysCommand(flags *flag.FlagSet) action {
	file := flags.String("config", defaultConfigFile, "the config `file`")
	tenant := flags.String("tenant", "", "the tenant that the key is for, or whose keys are listed")
	subject := flags.String("subject", "", "who the key speaks for, such as ci; rules and audit know it as "+
		"public_url#subject")
	scopes := flags.String("scopes", "", "the scopes of the key, a `list` with commas; none without")
	ttl := flags.String("ttl", "90d", "how long the key lives, as `90d` or 12h; a year at most")
	return func(ctx context.Context, words []string, s streams) error {
		verb := strings.Join(words[:min(1, len(words))], "")
		wants := map[string]int{"create": 1, "list": 1, "revoke": 2}[verb]
		life, fault := spanOf(*ttl)
		if err := refusedFirst(
			wrong{
				wants == 0 || len(words) != wants,
				"write create, list or revoke ID; see drawbridge keys -h",
			},
			wrong{
				verb == "create" && (*tenant == "" || *subject == ""), "create needs -tenant and -subject",
			},
			wrong{
				len(*subject) > auth.MaxName || strings.TrimSpace(*subject) != *subject,
				fmt.Sprintf("-subject has %d bytes at most, and no blanks around it", auth.MaxName),
			},
			wrong{
				fault != nil || life <= 0 || life > accesskey.MaxLife,
				fmt.Sprintf("-ttl: %q is no time such as 90d or 12h, of a year at most", *ttl),
			}); err != nil {
			return err
		}
		if err := without(flags, verb, map[string][]string{
			"list": {"subject", "scopes", "ttl"}, "revoke": {"tenant", "subject", "scopes", "ttl"},
		}[verb]...); err != nil {
			return err
		}
		return withKeeping(*file, verb == "create", s, func(k *keeping) error {
			if err := k.hasKeys(ctx); err != nil {
				return err
			}
			book := accesskey.Book{Store: k.db}
			switch verb {
			case "create":
				key := accesskey.Key{Tenant: *tenant, Subject: *subject, Scopes: scopesOf(*scopes)}
				return k.createKey(ctx, book, key, life, s)
			case "list":
				k.warnIfOff(s)
				return k.listKeys(ctx, book, *tenant, s)
			}
			return revokeKey(ctx, book, words[1], s)
		})
	}
}

// createKey makes a key, and prints it alone to the output, for programs.
func (k *keeping) createKey(ctx context.Context, book accesskey.Book, key accesskey.Key, life time.Duration,
	s streams,
) error {
	if err := checkTenant(k.cfg, key.Tenant); err != nil {
		return err
	}
	if subject, whole := strings.CutPrefix(key.Subject, k.cfg.PublicAddress()+"#"); whole {
		return fmt.Errorf("-subject is without the public URL: write -subject %s", subject)
	}
	if slices.ContainsFunc(k.cfg.Clients,
		func(c clients.Fixed) bool { return c.ID == key.Subject && speaks(&c) }) {
		return fmt.Errorf("a client of the config is called %q, and in rules a key of that name would be "+
			"the same subject; choose another", key.Subject)
	}
	text, key, err := book.Create(ctx, key, life)
	if err != nil {
		return err
	}
	s.say("%s\n", text)
	s.complain("key %s speaks for %s#%s until %s; it is shown this once\n", key.ID, k.cfg.PublicAddress(),
		key.Subject,
		key.Expires.UTC().Format(time.RFC3339))
	k.warnOfScopes(key, s)
	k.warnIfOff(s)
	return nil
}

// warnOfScopes names the scopes of a key that no rule of its tenant names: they may be
// misspelt.
func (k *keeping) warnOfScopes(key accesskey.Key, s streams) {
	var named []string
	for i := range k.cfg.Tenants {
		if t := &k.cfg.Tenants[i]; t.ID == key.Tenant {
			for j := range t.Rules {
				named = append(named, t.Rules[j].Scopes...)
			}
		}
	}
	for _, scope := range key.Scopes {
		if !slices.Contains(named, scope) {
			s.complain("no rule of the tenant %s names the scope %q%s\n", key.Tenant, scope,
				hint(scope, named))
		}
	}
}

// speaks tells whether a client gets tokens of its own, and so is a subject in rules.
func speaks(c *clients.Fixed) bool { return c.Tenant != "" }

// namesakeError is what speaks against the clients of a config: that an access key has
// the name of one that is a subject, since in rules both would be the same.
type namesakeError struct{ text string }

func (e *namesakeError) Error() string { return e.text }

// namesake returns a *namesakeError if an access key has the name of a client.
func namesake(ctx context.Context, db store.Store, cfg *config.Config) error {
	for i := range cfg.Clients {
		c := &cfg.Clients[i]
		if !speaks(c) {
			continue
		}
		key, err := accesskey.Book{Store: db}.Named(ctx, c.ID)
		if err == nil {
			return &namesakeError{fmt.Sprintf("the client %q: the access key %s of tenant %s speaks for "+
				"that name already, and in rules both would be the subject %s#%[1]s; revoke the key, or "+
				"give the client another id", c.ID, key.ID, key.Tenant, cfg.PublicAddress())}
		}
		if !errors.Is(err, accesskey.ErrNotFound) {
			return fmt.Errorf("look for access keys called %q: %w", c.ID, err)
		}
	}
	return nil
}

// listKeys prints the keys of a tenant, or of all. One that the config has no more may
// still have some. That the reader is gone is told at the end.
func (k *keeping) listKeys(ctx context.Context, book accesskey.Book, tenant string, s streams) error {
	keys, err := book.List(ctx, tenant)
	if err != nil {
		return err
	}
	if len(keys) == 0 && tenant != "" {
		if err := checkTenant(k.cfg, tenant); err != nil {
			return err
		}
	}
	slices.SortFunc(keys, func(a, b accesskey.Key) int {
		return strings.Compare(a.Tenant+"\x00"+a.Subject+"\x00"+a.ID, b.Tenant+"\x00"+b.Subject+"\x00"+b.ID)
	})
	const minutes = "2006-01-02 15:04"
	table := tabwriter.NewWriter(s.out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "id\ttenant\tsubject\tscopes\tcreated\texpires\tlast use")
	for _, k := range keys {
		used := "never"
		if !k.Used.IsZero() {
			used = k.Used.UTC().Format(minutes)
		}
		_, _ = fmt.Fprintf(table, "%s\t%s\t%q\t%s\t%s\t%s\t%s\n", k.ID, k.Tenant, k.Subject,
			strings.Join(k.Scopes, ","),
			k.Created.UTC().Format(time.DateOnly), k.Expires.UTC().Format(minutes), used)
	}
	return table.Flush()
}

// warnIfOff says so if keys are not taken by the config.
func (k *keeping) warnIfOff(s streams) {
	if !k.cfg.AccessKeys {
		s.complain("no key is taken: the config needs access_keys: on\n")
	}
}

// revokeKey ends a key.
func revokeKey(ctx context.Context, book accesskey.Book, id string, s streams) error {
	k, err := book.Revoke(ctx, id)
	if strings.HasPrefix(id, accesskey.Prefix) { // a key, perhaps mistyped, which belongs into no error
		id = "the key"
	}
	if err != nil {
		return fmt.Errorf("%s: %w", id, err)
	}
	s.say("key %s of %q in tenant %s is revoked; every replica refuses it within a second\n", k.ID, k.Subject,
		k.Tenant)
	return nil
}
