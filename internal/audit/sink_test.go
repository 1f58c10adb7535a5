package audit

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// The tests in this file look at what only a misbehaving file shows, so they hand the log
// one.

var (
	errDisk = errors.New("disk error")
	errFull = errors.New("disk full")
)

// disk is a file in memory that fails and waits as it is told.
type disk struct {
	pipe bool          // no regular file
	wait chan struct{} // each write receives from it; nil: none waits
	hang chan struct{} // each sync receives from it; nil: none waits

	mu       sync.Mutex // guards the fields below
	text     []byte
	space    int // bytes until a write fails; negative: endless
	free     int // bytes that can be reserved behind the end; negative: endless
	reserved int // largest size that was reserved
	cuts     int
	syncs    int
	badSyncs int // how many of the next fail
	writes   int
}

func newDisk() *disk { return &disk{space: -1, free: -1} }

func (d *disk) Write(p []byte) (int, error) {
	if d.wait != nil {
		<-d.wait
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.writes++
	n := len(p)
	if d.space >= 0 {
		n = min(n, d.space)
		d.space -= n
	}
	d.text = append(d.text, p[:n]...)
	if n < len(p) {
		return n, errDisk
	}
	return n, nil
}

func (d *disk) Reserve(offset, n int64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.free >= 0 && int(offset+n) > len(d.text)+d.free {
		return errFull
	}
	d.reserved = max(d.reserved, int(offset+n))
	return nil
}

func (d *disk) Sync() error {
	if d.hang != nil {
		<-d.hang
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.syncs++
	if d.badSyncs > 0 {
		d.badSyncs--
		return errDisk
	}
	return nil
}

func (d *disk) Truncate(size int64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.pipe {
		return errDisk
	}
	d.text = d.text[:size]
	d.cuts++
	return nil
}

func (d *disk) Stat() (os.FileInfo, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return info{size: int64(len(d.text)), pipe: d.pipe}, nil
}

func (*disk) Close() error { return nil }

// set changes a field while the log uses the disk.
func (d *disk) set(field *int, value int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	*field = value
}

func (d *disk) count(what *int) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return *what
}

func (d *disk) lines() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return strings.Split(strings.TrimSuffix(string(d.text), "\n"), "\n")
}

type info struct {
	os.FileInfo

	size int64
	pipe bool
}

func (i info) Size() int64 { return i.size }

func (i info) Mode() fs.FileMode {
	if i.pipe {
		return fs.ModeNamedPipe
	}
	return 0
}

func record(i int) *Record { return &Record{RequestID: strconv.Itoa(i)} }

// logOn returns a log on d that the test closes at its end, in a bubble before that ends.
func logOn(t *testing.T, cfg Config, d *disk) *Log {
	t.Helper()
	l := newLog(cfg, d, false)
	t.Cleanup(func() { _ = l.Close() }) // its error is another test's matter
	return l
}

// kept returns the ids of the whole records on d.
func (d *disk) kept() string {
	var ids []string
	for _, line := range d.lines() {
		if _, rest, ok := strings.Cut(line, `"request_id":"`); ok && strings.HasSuffix(line, "}") {
			id, _, _ := strings.Cut(rest, `"`)
			ids = append(ids, id)
		}
	}
	return strings.Join(ids, " ")
}

// TestFailedRecordIsTakenBackAndTriedAgain shows that half a line does not stay in the
// file, that nothing is booked meanwhile, and that the record is there once there is
// room: only what could not be booked is lost.
func TestFailedRecordIsTakenBackAndTriedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDisk()
		lost := 0
		l := logOn(t, Config{Dropped: func(n int) { lost += n }}, d)
		if err := l.Write(record(1)); err != nil {
			t.Fatal(err)
		}
		before := len(d.text)
		d.set(&d.space, 10)
		if err := l.Write(record(2)); !errors.Is(err, errDisk) {
			t.Errorf("got error %v, want %v", err, errDisk)
		}
		if len(d.text) != before {
			t.Errorf("the file holds %q, want record 1 alone", d.text)
		}
		if err := l.Book(); !errors.Is(err, errDisk) {
			t.Errorf("booked with error %v, want %v", err, errDisk)
		}
		d.set(&d.space, -1)
		time.Sleep(retryTicks * watchInterval)
		synctest.Wait()
		if err := l.Write(record(3)); err != nil {
			t.Errorf("after there is room again: %v", err)
		}
		if got := d.kept(); got != "1 2 3" || lost != 1 {
			t.Errorf("got records %s and %d lost, want 1 2 3 and 1", got, lost)
		}
	})
}

// TestPipeGoesOnWhereItStopped shows that what went into a pipe is not written again, so
// that its reader sees whole lines.
func TestPipeGoesOnWhereItStopped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDisk()
		d.pipe = true
		l := logOn(t, Config{Always: true}, d)
		d.set(&d.space, 10)
		if err := l.Write(record(1)); !errors.Is(err, errDisk) {
			t.Errorf("got error %v, want %v", err, errDisk)
		}
		d.set(&d.space, -1)
		time.Sleep(retryTicks * watchInterval)
		synctest.Wait()
		if err := l.Write(record(2)); err != nil {
			t.Error(err)
		}
		if got := d.lines(); len(got) != 2 || d.kept() != "1 2" {
			t.Errorf("got lines %q, want two whole ones", got)
		}
		if d.syncs != 0 {
			t.Error("a pipe was synced")
		}
	})
}

// TestLinesOfOthersAreNotTakenBack shows that a file to which another process appended is
// not cut, and that the half line spoils only itself.
func TestLinesOfOthersAreNotTakenBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDisk()
		l := logOn(t, Config{}, d)
		d.mu.Lock()
		d.text = append(d.text, "other\n"...)
		d.mu.Unlock()
		d.set(&d.space, 10)
		if err := l.Write(record(1)); !errors.Is(err, errDisk) {
			t.Errorf("got error %v, want %v", err, errDisk)
		}
		d.set(&d.space, -1)
		time.Sleep(retryTicks * watchInterval)
		synctest.Wait()
		if got := d.lines(); len(got) != 3 || got[0] != "other" || len(got[1]) != 10 || d.kept() != "1" {
			t.Errorf("got lines %q, want the other's, half a line and that of record 1", got)
		}
	})
}

// TestALineThatOthersGoOnInIsWrittenAgain has others write behind a line that lacks its
// break: nobody can read it there.
func TestALineThatOthersGoOnInIsWrittenAgain(t *testing.T) {
	d := newDisk()
	s := newSink(d, false, false)
	d.text = append(d.text, "other\n"...)
	d.set(&d.space, len("one\ntwo"))
	left, err := s.write([]byte("one\ntwo\n"), false)
	if !errors.Is(err, errDisk) {
		t.Fatalf("got error %v, want %v", err, errDisk)
	}
	d.set(&d.space, -1)
	d.text = append(d.text, "more\n"...)
	s.checkSpace()
	if left, err = s.write(left, false); len(left) > 0 || err != nil {
		t.Fatalf("got %q left, error %v, want neither", left, err)
	}
	if got := string(d.text); got != "other\none\ntwomore\n\ntwo\n" {
		t.Errorf("got %q, want a line of its own", got)
	}
}

// TestABreakBehindAHalfLineIsWrittenOnce has the first write behind half a line fail
// after each number of bytes: what is there in the end is the same.
func TestABreakBehindAHalfLineIsWrittenOnce(t *testing.T) {
	const lines, want = "one\ntwo\n", "hal\none\ntwo\n"
	for fits := range len(want) - len("hal") {
		d := newDisk()
		d.text = []byte("hal")
		s := newSink(d, true, false)
		d.set(&d.space, fits)
		left, err := s.write([]byte(lines), false)
		if !errors.Is(err, errDisk) {
			t.Fatalf("got error %v, want %v", err, errDisk)
		}
		d.set(&d.space, -1)
		if left, err = s.write(left, false); len(left) > 0 || err != nil || string(d.text) != want {
			t.Errorf("with room for %d bytes: got %q, %q left and error %v, want %q", fits, d.text, left, err, want)
		}
	}
}

// TestWholeLinesStayWithoutABreak shows that no empty line stands behind lines that were
// written whole before a write failed, and that they are not written again, also if only
// the line break of the last one is missing.
func TestWholeLinesStayWithoutABreak(t *testing.T) {
	for _, fits := range []string{"one\n", "one\ntwo"} {
		d := newDisk()
		s := newSink(d, false, false)
		d.text = append(d.text, "other\n"...)
		d.set(&d.space, len(fits))
		left, err := s.write([]byte("one\ntwo\n"), false)
		if !errors.Is(err, errDisk) {
			t.Fatalf("got error %v, want %v", err, errDisk)
		}
		d.set(&d.space, -1)
		if left, err = s.write(left, false); len(left) > 0 || err != nil {
			t.Fatalf("got %q left, error %v, want neither", left, err)
		}
		if got := string(d.text); got != "other\none\ntwo\n" {
			t.Errorf("with room for %q: got %q, want each line once and no other", fits, got)
		}
	}
}

// TestRecordAfterTornLine shows that the first record after a crash in the middle of a
// line does not go on in it.
func TestRecordAfterTornLine(t *testing.T) {
	t.Parallel()
	name := t.TempDir() + "/audit.jsonl"
	if err := os.WriteFile(name, []byte("{\"outcome\":\"ok\"}\n{\"outco"), 0o600); err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		l, err := Open(Config{File: name})
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(l.Write(record(i)), l.Close()); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(text), "\n")
	if len(lines) != 5 || lines[1] != `{"outco` || !strings.Contains(lines[2], `"request_id":"0"`) ||
		!strings.Contains(lines[3], `"request_id":"1"`) {
		t.Errorf("got %q, want the half line and the two records on lines of their own", text)
	}
}

// TestRoomIsSureBeforeACall shows that no more records are booked than the disk has room
// for at their longest, that each of those is written although the disk is full then, and
// that it goes on by itself when there is room.
func TestRoomIsSureBeforeACall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDisk()
		d.free = 20*maxLine + 100
		l := logOn(t, Config{}, d)
		booked := 0
		for l.Book() == nil {
			booked++
		}
		if booked < 18 || booked > 20 {
			t.Errorf("booked %d lines, want 18 to 20: there is room for 20", booked)
		}
		if err := l.Problem(); !errors.Is(err, errFull) {
			t.Errorf("got problem %v, want %v", err, errFull)
		}
		d.set(&d.free, 0) // others took the rest; what was reserved stays
		d.set(&d.space, d.count(&d.reserved))
		for i := range booked {
			if err := l.Keep(longest(i)); err != nil {
				t.Fatalf("record %d of %d that were booked: %v", i, booked, err)
			}
		}
		if err := l.Book(); !errors.Is(err, errFull) {
			t.Errorf("booked with error %v, want %v", err, errFull)
		}
		d.set(&d.free, -1)
		d.set(&d.space, -1)
		time.Sleep(retryTicks * watchInterval)
		synctest.Wait()
		if err := errors.Join(l.Problem(), l.Write(record(99))); err != nil {
			t.Errorf("after there is room again: %v", err)
		}
	})
}

// longest returns a record whose line is the longest that there is.
func longest(i int) *Record {
	text := strings.Repeat("\x00", maxString)
	scopes := slices.Repeat([]string{strings.Repeat("s", 20)}, maxScopes/20)
	members := slices.Repeat(Members{{strings.Repeat("m", MaxMemberName), text}}, MaxMembers)
	return &Record{
		Audience: slices.Repeat([]string{text}, maxList), Expected: slices.Repeat([]string{text}, maxList),
		Time: time.Date(2026, 12, 31, 23, 59, 59, 999999999, time.UTC), RequestID: fmt.Sprint(i) +
			text, CallID: text, TenantID: text, Issuer: text, Subject: text,
		ClientID: text, Remote: text, Method: text, Server: text, Item: text, Outcome: text, Reason: text,
		Arguments: text,
		Client:    text, Version: text, Session: text, Rule: text, Config: text,
		Scopes: scopes, Ruled: scopes, Missing: scopes,
		Argument: text, Name: text, TokenID: text, Claim: text, Found: text, WaitedFor: "process", Claims: members, Named: members,
		Duration: -1 << 63, Wait: -1 << 63, Upstream: -1 << 63, Repairs: -1 << 63, Count: -1 << 63,
	}
}

func TestLongestLine(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"\x00", "\xff", "\u00ad", "\U000E0041", "\"", "x"} {
		r := longest(0)
		for _, field := range []*string{
			&r.RequestID, &r.CallID, &r.TenantID, &r.Issuer, &r.Subject,
			&r.ClientID, &r.Remote, &r.Method, &r.Server, &r.Item, &r.WholeName, &r.Outcome, &r.Reason,
			&r.Arguments, &r.Client, &r.Version, &r.Session, &r.Rule, &r.Config,
			&r.Argument, &r.Name, &r.TokenID, &r.Claim, &r.Found,
		} {
			*field = strings.Repeat(text, maxString)
		}
		r.Audience = slices.Repeat([]string{r.Item}, maxList+1)
		r.Expected = r.Audience
		for i := range r.Claims { // which Named shares
			r.Claims[i][1] = r.Item
		}
		if got := len(r.appendLine(nil)) + 1; got > maxLine { // and a line break for a torn line
			t.Errorf("a line of %q has %d bytes, want %d at most", text, got, maxLine)
		}
	}
	if maxLine > 48<<10 {
		t.Errorf("the longest line has %d bytes, want 48 KiB at most", maxLine)
	}
}

// TestScopesThatRulesNameAreUncut gives a record more scopes than rules name, and some
// that are none.
func TestScopesThatRulesNameAreUncut(t *testing.T) {
	t.Parallel()
	many := make([]string, 200)
	for i := range many {
		many[i] = fmt.Sprintf("scope.number.%03d", i)
	}
	for name, test := range map[string]struct {
		record Record
		want   string
	}{
		"rules name none":    {Record{Scopes: many}, `{"time":"0001-01-01T00:00:00Z"}`},
		"the token has none": {Record{Ruled: []string{"a"}}, `{"time":"0001-01-01T00:00:00Z","scopes":[]}`},
		"some": {
			Record{Scopes: []string{"c", "b", "a"}, Ruled: []string{"a", "c"}},
			`{"time":"0001-01-01T00:00:00Z","scopes":["c","a"]}`,
		},
		"no scopes": {Record{
			Scopes: []string{"a\"b", "", "a b", "é"},
			Ruled:  []string{"a\"b", "", "a b", "é"},
		}, `{"time":"0001-01-01T00:00:00Z","scopes":[]}`},
		"many": {
			Record{Scopes: many, Ruled: many},
			`{"time":"0001-01-01T00:00:00Z","scopes":["` + strings.Join(many, `","`) + `"]}`,
		},
		"missing, and a rule": {
			Record{Rule: "drawbridge.yaml:7", Missing: []string{"a", "b"}},
			`{"time":"0001-01-01T00:00:00Z","rule":"drawbridge.yaml:7","missing":["a","b"]}`,
		},
	} {
		if got := strings.TrimSpace(string(test.record.appendLine(nil))); got != test.want {
			t.Errorf("%s: got %s, want %s", name, got, test.want)
		}
	}
}

// TestMembersHaveBounds gives a record claims and arguments whose names and values are
// too many, too long, or such as would end a text in the line.
func TestMembersHaveBounds(t *testing.T) {
	t.Parallel()
	const begin = `{"time":"0001-01-01T00:00:00Z",`
	long := strings.Repeat("v", MaxValue+1)
	for name, test := range map[string]struct {
		record Record
		want   string
	}{
		"claims": {
			Record{Claims: Members{{"email", "a@b"}, {"/x/y", "\u202e\""}}},
			begin + `"claims":{"email":"a@b","/x/y":"\u202e\""}}`,
		},
		"names": {
			Record{Named: Members{{"a\"b", "1"}, {strings.Repeat("n", MaxMemberName+1), "2"}, {"é", "3"}, {"d", "4"}}},
			begin + `"named_arguments":{"d":"4"}}`,
		},
		"a long value": {
			Record{Named: Members{{"a", long}}}, begin + `"named_arguments":{"a":"` + long[1:] + `"}}`,
		},
		"many": {
			Record{Named: slices.Repeat(Members{{"a", ""}}, MaxMembers+1)},
			begin + `"named_arguments":{` + strings.Repeat(`"a":"",`, MaxMembers-1) + `"a":""}}`,
		},
		"claims have less room": {
			Record{Claims: slices.Repeat(Members{{"a", long}}, 5)},
			begin + `"claims":{` + strings.Repeat(`"a":"`+long[1:]+`",`, 4) + `"a":""}}`,
		},
	} {
		if got := strings.TrimSpace(string(test.record.appendLine(nil))); got != test.want {
			t.Errorf("%s: got %s, want %s", name, got, test.want)
		}
	}
}

// TestCutFileIsExtendedAnew shows that a file that was cut to nothing, as some rotation
// does, has room set aside again.
func TestCutFileIsExtendedAnew(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDisk()
		l := logOn(t, Config{}, d)
		if err := l.Write(record(1)); err != nil {
			t.Fatal(err)
		}
		d.mu.Lock()
		d.text, d.reserved = nil, 0
		d.mu.Unlock()
		time.Sleep(retryTicks * watchInterval)
		synctest.Wait()
		if got := d.count(&d.reserved); got < lowSpace {
			t.Errorf("%d bytes are reserved in the cut file, want %d at least", got, lowSpace)
		}
		if err := l.Write(record(2)); err != nil || d.kept() != "2" {
			t.Errorf("error %v and records %s, want none and 2", err, d.kept())
		}
	})
}

// TestRoomIsGivenBack shows that a file is not longer than its lines on disk after Close.
func TestRoomIsGivenBack(t *testing.T) {
	t.Parallel()
	d := newDisk()
	l := newLog(Config{}, d, false)
	if err := errors.Join(l.Write(record(1)), l.Close()); err != nil {
		t.Fatal(err)
	}
	if d.reserved < lowSpace || d.cuts != 1 || d.kept() != "1" {
		t.Errorf("%d bytes reserved, %d cuts, records %s; want some, 1 and 1", d.reserved, d.cuts, d.kept())
	}
}

// TestGroupCommit shows that callers who come while a batch is written share the next one
// and its sync, and its error.
func TestGroupCommit(t *testing.T) {
	t.Parallel()
	for _, badSyncs := range []int{0, 2} {
		synctest.Test(t, func(t *testing.T) {
			d := newDisk()
			d.wait = make(chan struct{})
			d.badSyncs = badSyncs
			l := logOn(t, Config{Always: true, Interval: time.Hour}, d)
			errs := make(chan error)
			for i := range 9 {
				go func() { errs <- l.Write(record(i)) }()
				synctest.Wait() // the first waits for its write, the others for it
			}
			for range 2 { // a failed batch is written with the next one, after a while
				d.wait <- struct{}{}
				time.Sleep(retryTicks * watchInterval)
				synctest.Wait()
			}
			for range 9 {
				if err := <-errs; (err == nil) != (badSyncs == 0) {
					t.Errorf("%d bad syncs: got error %v", badSyncs, err)
				}
			}
			if got := d.count(&d.writes); badSyncs == 0 && (got != 2 || d.count(&d.syncs) != 2) {
				t.Errorf("%d writes and %d syncs for 9 records, want 2 of each", got, d.syncs)
			}
			close(d.wait)
			time.Sleep(retryTicks * watchInterval)
			synctest.Wait()
			if got := strings.Fields(d.kept()); len(got) != 9 {
				t.Errorf("%d bad syncs: records %v in the end, want all 9 once", badSyncs, got)
			}
		})
	}
}

// TestWaitingIsBounded shows that nobody waits for a file that hangs longer than is
// promised, that nothing is booked while it hangs, and that everything is written when it
// does not any more.
func TestWaitingIsBounded(t *testing.T) {
	t.Parallel()
	for _, pipe := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			d := newDisk()
			d.pipe, d.wait = pipe, make(chan struct{})
			l := logOn(t, Config{}, d)
			started, errs := time.Now(), make(chan error)
			for i := range 5 {
				go func() { errs <- l.Write(record(i)) }()
			}
			for range 5 {
				if err := <-errs; !errors.Is(err, errStalled) {
					t.Errorf("got error %v, want %v", err, errStalled)
				}
			}
			if took := time.Since(started); took > writePatience+watchInterval {
				t.Errorf("waited %v, want %v at most", took, writePatience+watchInterval)
			}
			if err := l.Book(); !errors.Is(err, errStalled) {
				t.Errorf("booked with error %v, want %v", err, errStalled)
			}
			close(d.wait)
			time.Sleep(time.Second)
			synctest.Wait()
			if err := errors.Join(l.Problem(), l.Write(record(5))); err != nil {
				t.Errorf("after it goes on: %v", err)
			}
			if got := len(strings.Fields(d.kept())); got != 6 {
				t.Errorf("%d records, want 6: %s", got, d.kept())
			}
		})
	}
}

// TestRecordAfterStallIsWaitedFor shows that a record which comes after the file hung is
// waited for again: once that when nothing gathered meanwhile it was called lost although
// it was written.
func TestRecordAfterStallIsWaitedFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDisk()
		d.pipe, d.wait = true, make(chan struct{})
		l := logOn(t, Config{}, d)
		if err := l.Write(record(1)); !errors.Is(err, errStalled) {
			t.Errorf("got error %v, want %v", err, errStalled)
		}
		close(d.wait)
		synctest.Wait()
		if err := l.Write(record(2)); err != nil {
			t.Errorf("after it goes on: %v", err)
		}
		if got := d.kept(); got != "1 2" {
			t.Errorf("got records %s, want 1 2", got)
		}
	})
}

// TestFileThatClosesBadlyIsFollowed moves a file away that cannot be closed. What comes
// is in another file, and the word about it speaks of the old one.
func TestFileThatClosesBadlyIsFollowed(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "audit")
	words := make(chan error, 10)
	l, err := Open(Config{File: name, Moved: func(err error) { words <- err }})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := l.sink.file.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(name, name+".1"); err != nil {
		t.Fatal(err)
	}
	l.Reopen()
	err = <-words
	if closing, ok := errors.AsType[*ClosingError](err); !ok || !errors.Is(closing.Err, os.ErrClosed) {
		t.Errorf("got %v, want a ClosingError", err)
	}
	l.Reopen() // the writer looks again before it writes
	if err := l.Write(record(1)); err != nil {
		t.Errorf("afterwards: %v", err)
	}
	if text, err := os.ReadFile(name); err != nil || len(text) == 0 {
		t.Errorf("got %q and %v, want the record in the new file", text, err)
	}
	if len(words) > 0 {
		t.Errorf("told again: %v", <-words)
	}
}

// TestRoomThatCallsGiveBackIsBooked shows that a call which waits for room gets what
// others booked and did not need, at once and not when the writer next looks by itself.
func TestRoomThatCallsGiveBackIsBooked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDisk()
		d.wait = make(chan struct{})
		l := logOn(t, Config{}, d)
		if err := l.Book(); err != nil {
			t.Fatal(err)
		}
		go func() { _ = l.Keep(record(0)) }() // the writer is busy with it
		synctest.Wait()
		booked := 0
		for ; l.isFree(maxLine); booked++ {
			if err := l.Book(); err != nil {
				t.Fatal(err)
			}
		}
		waiting := make(chan time.Duration)
		started := time.Now()
		go func() {
			if err := l.Book(); err != nil {
				t.Error(err)
			}
			waiting <- time.Since(started)
		}()
		synctest.Wait()
		for i := range booked {
			go func() { _ = l.Keep(record(1 + i)) }()
		}
		synctest.Wait()
		close(d.wait)
		if took := <-waiting; took != 0 {
			t.Errorf("waited %v for room that was there", took)
		}
	})
}

// isFree tells whether nobody has booked n bytes of the room.
func (l *Log) isFree(n int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.freeLocked() >= n
}

// TestMemoryIsBounded shows that lines wait in memory up to a number, those that calls
// have yet to make included, and one more for each call that may go on.
func TestMemoryIsBounded(t *testing.T) {
	t.Parallel()
	for _, calls := range []int{0, 5000} {
		synctest.Test(t, func(t *testing.T) {
			d := newDisk()
			d.pipe = true
			l := logOn(t, Config{Calls: calls}, d)
			for i := range maxWaiting + calls {
				if err := l.Book(); err != nil {
					t.Fatalf("line %d: %v", i, err)
				}
			}
			if err := l.Book(); !errors.Is(err, errWaiting) {
				t.Errorf("got error %v, want %v", err, errWaiting)
			}
			if err := errors.Join(l.Keep(record(0)), l.Book()); err != nil {
				t.Errorf("after a line was written: %v", err)
			}
		})
	}
}

// TestDropNeverBlocks shows that with Drop a file that hangs holds up the calls that find
// it so for a moment, and later ones not at all; what memory does not hold is counted at
// once, the rest is written later or counted at Close.
func TestDropNeverBlocks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDisk()
		d.wait = make(chan struct{})
		dropped := 0
		l := logOn(t, Config{Drop: true, Dropped: func(n int) { dropped += n }}, d)
		took := func() time.Duration {
			started := time.Now()
			if err := errors.Join(l.Book(), l.Keep(record(0))); err != nil {
				t.Errorf("got error %v, want none", err)
			}
			return time.Since(started)
		}
		if got := took(); got > dropPatience+watchInterval {
			t.Errorf("the first call waited %v, want %v at most", got, dropPatience+watchInterval)
		}
		for range maxWaiting + 2 {
			if got := took(); got != 0 {
				t.Fatalf("a later call waited %v", got)
			}
		}
		if dropped != 3 || !errors.Is(l.Problem(), errStalled) {
			t.Errorf("%d records counted as dropped and problem %v, want 3 and %v", dropped, l.Problem(),
				errStalled)
		}
		if err := l.Close(); !errors.Is(err, errStalled) || dropped != maxWaiting+3 {
			t.Errorf("closed with error %v and %d dropped, want %v and all %d", err, dropped, errStalled,
				maxWaiting+3)
		}
		close(d.wait) // so that the writer ends
	})
}

// TestEndIsBounded shows that Close does not wait for a file that hangs, nor for a sync
// that does.
func TestEndIsBounded(t *testing.T) {
	t.Parallel()
	for _, syncs := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			d := newDisk()
			hang := make(chan struct{})
			if d.wait = hang; syncs {
				d.wait, d.hang = nil, hang
			}
			l := newLog(Config{}, d, false)
			go func() { _ = l.Write(record(1)) }() // it is not written in time
			time.Sleep(2 * defaultInterval)
			l.Reopen()
			started := time.Now()
			// What is written and only not synced is not lost.
			if err := l.Close(); errors.Is(err, errStalled) == syncs || (err == nil) != syncs ||
				time.Since(started) > closePatience {
				t.Errorf("hangs at sync %v: closed within %v with error %v, want %v within %v", syncs,
					time.Since(started), err, errStalled, closePatience)
			}
			close(hang)
		})
	}
}

// TestChangesAreTold shows that whoever must know learns when records cannot be written,
// and when they can again.
func TestChangesAreTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDisk()
		d.free = 0
		var told []error
		l := logOn(t, Config{Changed: func(problem error) { told = append(told, problem) }}, d)
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if len(told) != 1 || !errors.Is(told[0], errFull) || !errors.Is(l.Problem(), errFull) {
			t.Errorf("told %v, want that the disk is full, once", told)
		}
		d.set(&d.free, -1)
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if len(told) != 2 || told[1] != nil {
			t.Errorf("told %v, want the end of it", told)
		}
	})
}

// TestSyncing shows that what was written is synced after a while, only then, and once
// more at the end.
func TestSyncing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDisk()
		l := newLog(Config{Interval: time.Second}, d, false)
		for step, want := range []int{0, 1, 1, 2} {
			if step%2 == 1 {
				if err := l.Write(record(step)); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(time.Second)
			synctest.Wait()
			if got := d.count(&d.syncs); got != want {
				t.Errorf("after %d s: %d syncs, want %d", step+1, got, want)
			}
		}
		if err := errors.Join(l.Write(record(9)), l.Close()); err != nil || d.syncs != 3 {
			t.Errorf("closed with error %v after %d syncs, want none and 3", err, d.syncs)
		}
	})
}

// TestFailedSyncIsTriedAgainWithoutAWrite lets a sync in the background fail while nobody
// writes: the next interval syncs what is there.
func TestFailedSyncIsTriedAgainWithoutAWrite(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDisk()
		d.badSyncs = 1
		l := logOn(t, Config{Interval: 10 * time.Second}, d)
		if err := l.Write(record(0)); err != nil {
			t.Fatal(err)
		}
		for interval, want := range []int{1, 2, 2} {
			time.Sleep(10100 * time.Millisecond)
			synctest.Wait()
			if got := d.count(&d.syncs); got != want {
				t.Errorf("after interval %d: %d syncs, want %d", interval+1, got, want)
			}
		}
		if err := l.Write(record(1)); err != nil || d.count(&d.syncs) != 2 {
			t.Errorf("the next write: got error %v after %d syncs, want none and 2", err, d.count(&d.syncs))
		}
	})
}

// TestFailedSyncIsNotForgotten shows that after a sync in the background failed, no
// record counts as written until one succeeds.
func TestFailedSyncIsNotForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDisk()
		d.badSyncs = 2
		l := logOn(t, Config{Interval: 10 * time.Second}, d)
		if err := l.Write(record(0)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10100 * time.Millisecond)
		synctest.Wait()
		if err := l.Write(record(1)); !errors.Is(err, errDisk) {
			t.Errorf("got error %v, want %v", err, errDisk)
		}
		time.Sleep(retryTicks * watchInterval)
		synctest.Wait()
		if err := l.Write(record(2)); err != nil {
			t.Errorf("after the disk is well again: %v", err)
		}
		if got := d.kept(); got != "0 1 2" || bytes.Count(d.text, []byte("\n")) != 3 {
			t.Errorf("got records %s, want 0 1 2", got)
		}
	})
}

// TestRecordsOfManyCallersShareWrites has many callers on one processor. Each would have
// a write of its own if the writer, which the first of them wakes, ran before the others.
func TestRecordsOfManyCallersShareWrites(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	d := newDisk()
	l := logOn(t, Config{}, d)
	const callers, each = 16, 100
	var group sync.WaitGroup
	for range callers {
		group.Go(func() {
			for i := range each {
				if err := l.Write(record(i)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	if writes := d.count(&d.writes); writes > callers*each/4 || len(d.lines()) != callers*each {
		t.Errorf("%d writes for %d records, %d lines", writes, callers*each, len(d.lines()))
	}
}

// TestARecordTakesNoMemory counts what a record allocates when nobody else writes. One is
// left for the race detector, which empties pools now and then.
func TestARecordTakesNoMemory(t *testing.T) {
	d := newDisk()
	d.text = make([]byte, 0, 1<<20)
	l := logOn(t, Config{}, d)
	r := record(1)
	if n := testing.AllocsPerRun(1000, func() {
		if err := l.Write(r); err != nil {
			t.Error(err)
		}
	}); n > 1 {
		t.Errorf("%v allocations, want none", n)
	}
}

// TestANameThatWasCutIsKnown cuts names at every place of a character.
func TestANameThatWasCutIsKnown(t *testing.T) {
	t.Parallel()
	for _, wide := range []string{"a", "é", "€", "🙂"} {
		for before := range len(wide) {
			whole := strings.Repeat("a", before) + strings.Repeat(wide, maxString)
			if left := cut(whole, maxString); !MayBeCut(left) {
				t.Errorf("%d bytes, then %q: of %d bytes %d are left, and nothing says that there were more",
					before, wide, len(whole), len(left))
			}
		}
	}
	if MayBeCut("files__read") {
		t.Error("a short name is taken for one that was cut")
	}
}
