package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/drawbridge-mcp/drawbridge/auth/signin"
	"github.com/drawbridge-mcp/drawbridge/cmd/drawbridge/internal/config"
	"github.com/drawbridge-mcp/drawbridge/internal/audit"
	"github.com/drawbridge-mcp/drawbridge/internal/dial"
	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
	"github.com/drawbridge-mcp/drawbridge/internal/seal"
	"github.com/drawbridge-mcp/drawbridge/internal/store"
	"github.com/drawbridge-mcp/drawbridge/internal/store/sqlite"
	"github.com/drawbridge-mcp/drawbridge/metrics"
)

// keeping is the store of a config as an operator's command uses it, beside the gateway
// that runs.
type keeping struct {
	cfg  *config.Config
	ring *seal.Ring
	db   store.Database

	remove bool // records that check cannot read
}

// withKeeping calls do with the store that a config names, which it closes. A config that
// has none is refused. makes tells that a folder without a store gets one. Otherwise that
// is an error: its disk may not be mounted, and a backup of nothing would pass for one.
func withKeeping(file string, makes bool, s streams, do func(*keeping) error) error {
	cfg, err := config.Load(file, config.ProcessEnvironment())
	if err == nil && !cfg.Data.Exists() {
		err = fmt.Errorf("%s has no data, so nothing is kept", file)
	}
	if err != nil {
		return refused("%w", err)
	}
	if dir := cfg.Data.Dir; dir != "" && !makes && !isThere(filepath.Join(dir, storeFile)) {
		return fmt.Errorf("%s has no %s: nothing was kept there yet, or its disk is not mounted", dir,
			storeFile)
	}
	k := &keeping{cfg: cfg}
	if k.ring, err = newRing(cfg); err != nil {
		return refused("%w", err)
	}
	if k.db, err = openStore(cfg, k.ring, slog.New(slog.NewTextHandler(s.err, nil))); err != nil {
		return refused("%w", err)
	}
	return errors.Join(do(k), k.db.Close())
}

// hasKeys returns an error if a key is missing that seals records: whoever asked could
// not see them, and would take them for gone.
func (k *keeping) hasKeys(ctx context.Context) error {
	err := store.MissingKeys(ctx, k.db, k.ring)
	if missing, ok := errors.AsType[*store.KeyError](err); ok {
		return fmt.Errorf("%w (the keys in force are in %s)", missing, k.keysLocation())
	}
	return err
}

// keysLocation says where the keys are without which nothing that is kept can be read.
func (k *keeping) keysLocation() string {
	return cmp.Or(k.cfg.Sessions.KeysFile, filepath.Join(k.cfg.Data.Dir, ringFile))
}

// dataHelp is the help of the command data.
var dataHelp = help{
	"(check [-remove] | backup FILE | restore FILE) [-config F]",
	"Looks after what the gateway keeps for good, also while it runs.\n" +
		"check reads all records and says how many cannot be read; -remove removes those that are damaged. " +
		"backup writes all records to a new file, as they are at one moment. restore puts those of a " +
		"backup in the place of all that there are, at once or not at all. The FILE - is standard output, " +
		"or input.\n" +
		"A backup of a folder can be restored to PostgreSQL and back. It has no keys: keep those, too.\n" +
		"Exit 0 when it is done, 1 when not, 2 when the config or the command line is refused.",
}

// dataCommand is the command data.
func dataCommand(flags *flag.FlagSet) action {
	file := flags.String("config", defaultConfigFile, "the config `file`")
	remove := flags.Bool("remove", false, "with check, remove records that cannot be read though their key "+
		"is there: they are damaged")
	return func(ctx context.Context, words []string, s streams) error {
		verb := strings.Join(words[:min(1, len(words))], "")
		do, wants := map[string]func(*keeping, context.Context, string, streams) error{
			"check": (*keeping).check, "backup": (*keeping).backup, "restore": (*keeping).restore,
		}[verb], map[string]int{"check": 1, "backup": 2, "restore": 2}[verb]
		if do == nil || len(words) != wants || *remove && verb != "check" {
			return refused("write check, backup FILE or restore FILE; see drawbridge data -h")
		}
		return withKeeping(*file, verb == "restore", s, func(k *keeping) error {
			k.remove = *remove
			return do(k, ctx, words[len(words)-1], s)
		})
	}
}

// check reads all records.
func (k *keeping) check(ctx context.Context, _ string, s streams) error {
	if err := k.db.Check(ctx); err != nil {
		return err
	}
	if file, ok := k.db.(*sqlite.Store); ok {
		if err := file.Intact(ctx); err != nil {
			return err
		}
	}
	cfg := store.Config{Ring: k.ring}
	kinds := map[string]int{}
	var unread []store.Row
	for row, err := range k.db.Rows(ctx) {
		if err != nil {
			return err
		}
		kinds[row.Kind]++
		if _, err := cfg.Open(row); err != nil {
			unread = append(unread, store.Row{Kind: row.Kind, ID: row.ID})
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		s.say("%s: %d\n", kind, kinds[kind])
	}
	if len(unread) > 0 && k.remove {
		return k.removeAll(ctx, unread, s)
	}
	if len(unread) > 0 {
		return fmt.Errorf("%s cannot be read with the keys in %s", count(len(unread), "record"),
			k.keysLocation())
	}
	s.say("all records can be read with the keys in %s\n", k.keysLocation())
	return nil
}

// removeAll removes records that cannot be read, but none that can be read by now: a
// gateway that runs may have written another under the same name once that one had
// expired. Nobody changes the others meanwhile: what is to be changed is read first.
// Where a key is missing they may be as good as new, and stay.
func (k *keeping) removeAll(ctx context.Context, damaged []store.Row, s streams) error {
	if err := store.MissingKeys(ctx, k.db, k.ring); err != nil {
		return fmt.Errorf("nothing is removed: %w", err)
	}
	removed := 0
	for _, row := range damaged {
		switch _, err := k.db.Get(ctx, row.Kind, row.ID); {
		case err == nil:
			continue
		case !errors.Is(err, seal.ErrInvalid) && !errors.Is(err, store.ErrNotFound):
			return err // it may well be readable
		}
		if err := k.db.Delete(ctx, row.Kind, row.ID); err != nil {
			return err
		}
		removed++
	}
	s.say("%s removed that could not be read\n", count(removed, "record"))
	return nil
}

// backup writes all records to a new file, which has its name when it is whole.
func (k *keeping) backup(ctx context.Context, path string, s streams) error {
	folder := filepath.Dir(path)
	switch {
	case path == "-":
		folder = k.cfg.Data.Dir // the temporary folder of the system without it
	case exists(path):
		return fmt.Errorf("%s is there already: name a new file", path)
	}
	dir, err := os.MkdirTemp(folder, ".backup.")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }() // it was made here, and is of no use
	part := filepath.Join(dir, "backup")
	to, err := sqlite.Open(part, store.Config{Ring: k.ring, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	records, err := to.Replace(ctx, k.db.Rows(ctx))
	if err = errors.Join(err, to.Close()); err != nil {
		return err
	}
	// SQLite closes a file without an error when it cannot write the log into it.
	// https://www.sqlite.org/wal.html#the_wal_file
	if exists(part + "-wal") {
		return fmt.Errorf("%s could not be written whole; there may be too little room for twice its size",
			path)
	}
	if path == "-" {
		err = copyTo(s.out, part)
		path = "standard output"
		s.out = s.err // standard output has the backup
	} else {
		err = os.Rename(part, path)
	}
	if err != nil {
		return err
	}
	s.say("%s in %s\nkeep the keys in %s too, at another place: without them it cannot be read\n",
		count(records, "record"), path, k.keysLocation())
	return nil
}

// restore puts the records of a backup in the place of all that there are. The file is
// copied first, since to open it would change it. Beside a file that is in use, or that
// was not closed, stands a log of SQLite with its last records.
func (k *keeping) restore(ctx context.Context, path string, s streams) error {
	if log := path + "-wal"; exists(log) {
		return fmt.Errorf("%s is no backup: its last records are in %s; make a backup of it with drawbridge "+
			"data backup, and restore that", path, log)
	}
	// the temporary folder of the system without data.dir
	dir, err := os.MkdirTemp(k.cfg.Data.Dir, ".restore.")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }() // a copy
	part := filepath.Join(dir, "backup")
	to, err := os.OpenFile(part, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600) //nolint:gosec // in a new folder
	if err != nil {
		return err
	}
	if err := errors.Join(copyTo(to, path), to.Close()); err != nil {
		return err
	}
	from, err := sqlite.OpenBackup(part, store.Config{Ring: k.ring, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return fmt.Errorf("%s is no backup that can be read: %w", path, err)
	}
	defer closeQuietly(from)
	if err := errors.Join(from.Intact(ctx), store.MissingKeys(ctx, from, k.ring)); err != nil {
		return fmt.Errorf("%s: %w (the keys in force are in %s)", path, err, k.keysLocation())
	}
	records, err := k.db.Replace(ctx, from.Rows(ctx))
	if err != nil {
		return err
	}
	s.say("%s restored from %s\nwhat was revoked or signed out after that backup was made is valid again: "+
		"revoke it again\n",
		count(records, "record"), path)
	return nil
}

// exists tells whether something is seen at a path.
func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// copyTo writes what is in a file.
func copyTo(out io.Writer, file string) error {
	in, err := input(file)
	if err != nil {
		return err
	}
	defer closeQuietly(in)
	_, err = io.Copy(out, in)
	return err
}

// signOutHelp is the help of the command sign-out.
var signOutHelp = help{
	"ISSUER#SUBJECT [-config F]",
	"Ends all that a person has who signed in with a browser, named as rules name people. Gateways that " +
		"run know it within a second: the tokens of all programs that the person allowed are refused, and " +
		"what they have open is closed. The person can sign in again, unless the provider refuses.\n" +
		"Exit 0 when it is done, 1 when not, 2 when the config or the command line is refused.",
}

// signOutCommand is the command sign-out.
func signOutCommand(flags *flag.FlagSet) action {
	file := flags.String("config", defaultConfigFile, "the config `file`")
	return func(ctx context.Context, words []string, s streams) error {
		issuer, subject, ok := strings.Cut(strings.Join(words[:min(1, len(words))], ""), "#")
		if len(words) != 1 || !ok || issuer == "" || subject == "" {
			return refused("name the person as rules do, as ISSUER#SUBJECT; see drawbridge " +
				"sign-out -h")
		}
		return withKeeping(*file, false, s, func(k *keeping) error {
			if err := k.hasKeys(ctx); err != nil {
				return err
			}
			ended, err := k.signOut(ctx, issuer, subject, s)
			if err != nil {
				return err
			}
			s.say("%s ended\n", count(ended, "sign-in"))
			k.warnOfIssuer(issuer, s)
			return nil
		})
	}
}

// warnOfIssuer says so if nobody of an issuer can sign in by the config: its name may be
// misspelt, and then the person goes on.
func (k *keeping) warnOfIssuer(issuer string, s streams) {
	issuers := make([]string, 0, len(k.cfg.Logins))
	for i := range k.cfg.Logins {
		issuers = append(issuers, k.cfg.Logins[i].Issuer.Issuer)
	}
	switch {
	case issuer == k.cfg.PublicAddress():
		s.complain("machines are of this issuer: drawbridge keys revoke ends an access key\n")
	case !slices.Contains(issuers, issuer):
		s.complain("nobody of the issuer %q signs in by this config%s\n", issuer, hint(issuer, issuers))
	}
}

// signOut ends what a person has. The gateways learn of it from the store.
func (k *keeping) signOut(ctx context.Context, issuer, subject string, s streams) (int, error) {
	server := signin.New(signin.Config{
		Ring: k.ring, Store: k.db, Documents: dial.Client(dial.Config{}), IsTenant: gateway.IsTenantID,
		Settings: func() signin.Settings { return signin.Settings{PublicURL: k.cfg.PublicURL} },
		Logger:   slog.New(slog.NewTextHandler(s.err, &slog.HandlerOptions{Level: slog.LevelWarn})),
		Records:  metrics.New(prometheus.NewRegistry()),
		Audit:    func(context.Context, audit.Record) bool { return true },
		Changed:  func() {}, Now: time.Now, Hold: signin.UsualHold,
	})
	return server.SignOut(ctx, issuer, subject)
}
