package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/internal/strictjson"
)

// quietPart is the argument that makes this program the quiet tenant.
const quietPart = "part-quiet"

// bystander is the process of the quiet tenant and its server, see beQuiet.
type bystander struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	words  *lastWords
	server string // the address of its server
}

// startBystander starts the process and waits until its server takes connections.
func startBystander(ctx context.Context) (*bystander, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	b := &bystander{cmd: exec.CommandContext(ctx, self, quietPart), words: &lastWords{}} //nolint:gosec // our own program
	b.cmd.Stderr = b.words
	out, err := b.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	b.out = bufio.NewReader(out)
	if b.in, err = b.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := b.cmd.Start(); err != nil {
		return nil, err
	}
	if b.server, err = b.out.ReadString('\n'); err != nil {
		b.end()
		return nil, fmt.Errorf("the quiet tenant: %w: %s", err, b.words)
	}
	b.server = strings.TrimSpace(b.server)
	return b, nil
}

// begin lets it make calls.
func (b *bystander) begin(o orders) error { return json.NewEncoder(b.in).Encode(o) }

// stop lets it make no more, and returns what it saw.
func (b *bystander) stop() (*notes, error) {
	if err := b.in.Close(); err != nil {
		return nil, err
	}
	line, err := b.out.ReadBytes('\n')
	if err != nil {
		return nil, fmt.Errorf("the quiet tenant: %w: %s", err, b.words)
	}
	n := &notes{}
	return n, strictjson.Unmarshal(line, n)
}

// end ends the process and waits for it. It has nothing to lose and is killed.
func (b *bystander) end() {
	_ = b.cmd.Process.Kill() // it may be gone
	_ = b.cmd.Wait()         // how it ended is of no interest
}
