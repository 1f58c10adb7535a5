package audit_test

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/audit"
)

// TestFullDisk books and writes on a real disk until that is full: every record that was
// booked is in the file, no other is, readers see nothing but lines, and it goes on by
// itself when there is room.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	disk := smallDisk(t)
	name := filepath.Join(disk, "audit.jsonl")
	l := open(t, audit.Config{File: name})
	kept := fillUp(t, l)
	if kept < 100 {
		t.Errorf("%d records on a disk of a mebibyte, want 100 at least", kept)
	}
	if got := len(linesOf(t, name)); got != kept {
		t.Errorf("%d lines in the file, want %d", got, kept)
	}
	other := filepath.Join(disk, "other")
	for err := error(nil); err == nil; { // others take what is left
		err = appendTo(other, 100)
	}
	if got := fillUp(t, l); got != 0 {
		t.Errorf("%d more records on a full disk", got)
	}
	if err := os.Rename(name, name+".1"); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(name + ".1"); err != nil {
		t.Fatal(err)
	}
	l.Reopen()
	eventually(t, "a record is booked again", func() bool { return l.Book() == nil })
	if err := l.Keep(&audit.Record{Time: noon, RequestID: "after"}); err != nil {
		t.Error(err)
	}
	if got := linesOf(t, name); len(got) != 1 || got[0]["request_id"] != "after" {
		t.Errorf("got %v in the new file, want the record written after", got)
	}
}

// TestLargestFile is the same without a disk of its own: a file that cannot grow has no
// room, until it is cut.
func TestLargestFile(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "audit.jsonl")
	largestFile(t, name)
	l := open(t, audit.Config{File: name})
	if l.Problem() == nil || l.Book() == nil {
		t.Error("booked in a file that cannot grow")
	}
	if err := os.Truncate(name, 0); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a record is booked again", func() bool { return l.Book() == nil })
	if err := l.Keep(&audit.Record{Time: noon}); err != nil || l.Problem() != nil {
		t.Errorf("after the file was cut: error %v, problem %v", err, l.Problem())
	}
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.TrimPrefix(string(text), "\n"); !strings.HasPrefix(got, `{"time":`) ||
		!strings.HasSuffix(got, "}\n") {
		t.Errorf("the file holds %q, want one line", text)
	}
}

// TestProblemSaysWhatTheNextBookWould books records that nobody keeps, until no more can
// be booked: whoever asks whether calls are made must hear so before the next call is
// refused.
func TestProblemSaysWhatTheNextBookWould(t *testing.T) {
	t.Parallel()
	for name, file := range map[string]func(t *testing.T) string{
		"no room":        func(t *testing.T) string { return filepath.Join(smallDisk(t), "audit.jsonl") },
		"too many calls": func(*testing.T) string { return os.DevNull },
	} {
		t.Run(name, func(t *testing.T) {
			l := open(t, audit.Config{File: file(t)})
			for booked := 0; ; booked++ {
				problem := l.Problem()
				err := l.Book()
				if (problem == nil) != (err == nil) {
					t.Fatalf("after %d records Problem says %v, and Book %v", booked, problem, err)
				}
				if err == nil {
					continue
				}
				if booked == 0 {
					t.Error("nothing was booked")
				}
				for range booked {
					if err := l.Keep(&audit.Record{Time: noon}); err != nil {
						t.Fatal(err)
					}
				}
				eventually(t, "a record can be booked again", func() bool { return l.Problem() == nil })
				return
			}
		})
	}
}

// fillUp books and writes until nothing is booked any more, and returns how many records
// were written.
func fillUp(t *testing.T, l *audit.Log) int {
	t.Helper()
	record := &audit.Record{Time: noon, Item: strings.Repeat("x", 250)}
	for n := 0; ; n++ {
		if l.Book() != nil {
			return n
		}
		if err := l.Keep(record); err != nil {
			t.Fatalf("record %d was booked and is not written: %v", n, err)
		}
	}
}

// smallDisk mounts a file system of a mebibyte, where that is allowed.
func smallDisk(t *testing.T) string {
	t.Helper()
	directory := t.TempDir()
	if err := mountSmall(directory); err != nil {
		t.Skipf(
			"a small disk cannot be mounted here (%v); TestLargestFile and TestRoomIsSureBeforeACall do without", err)
	}
	t.Cleanup(func() {
		if err := unmount(directory); err != nil {
			t.Error(err)
		}
	})
	return directory
}

// largestFile makes an empty file as large as its file system lets files be: a write to
// its end fails.
func largestFile(t *testing.T, name string) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("files are extended ahead on Linux only")
	}
	if err := os.WriteFile(name, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var size int64
	for step := int64(1) << 62; step > 0; step /= 2 {
		if os.Truncate(name, size+step) == nil {
			size += step
		}
	}
	if err := os.Truncate(name, size); err != nil {
		t.Fatal(err)
	}
	if err := appendTo(name, 1); !errors.Is(err, syscall.EFBIG) {
		t.Fatalf("a file of %d bytes grows: %v", size, err)
	}
}

func appendTo(name string, n int) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(make([]byte, n))
	return errors.Join(err, f.Close())
}

// eventually waits until check holds.
func eventually(t *testing.T, what string, check func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	late := time.After(2 * time.Minute)
	for !check() {
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("not within two minutes: %s", what)
		}
	}
}
