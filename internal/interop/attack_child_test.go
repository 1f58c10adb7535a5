package interop_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strings"
)

// childRole in the environment makes the test binary a stdio server.
const childRole = "DRAWBRIDGE_INTEROP_CHILD"

// child is a stdio server: "crash" ends at once, "confess" tells what it was given.
func child(role string) int {
	switch role {
	case "job":
		return handOver()
	case "matrix-legacy", "matrix-modern":
		return matrixChild(role)
	case "mcp-go":
		return mcpGoChild()
	case "asker":
		return newAsker(false).stdin()
	case "crash":
		fmt.Fprintln(os.Stderr, "falling over")
		return 3
	}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var m message
		if json.Unmarshal(lines.Bytes(), &m) != nil || m.ID == nil {
			continue
		}
		switch m.Method {
		case "initialize":
			fmt.Printf(
				`{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"c","version":"1"}}}`+"\n", m.ID)
		case "tools/list":
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":{"tools":[%s]}}`+"\n", m.ID, tool("confess"))
		case "tools/call":
			text, _ := json.Marshal(confession())
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":%s}]}}`+"\n",
				m.ID, text)
		default:
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}`+"\n", m.ID)
		}
	}
	return 0
}

// confession lists the environment, the arguments and the open files.
func confession() string {
	var all []string
	for _, one := range os.Environ() {
		all = append(all, "env "+one)
	}
	for _, one := range os.Args[1:] {
		all = append(all, "arg "+one)
	}
	entries, _ := os.ReadDir("/proc/self/fd")
	for _, entry := range entries {
		if target, err := os.Readlink("/proc/self/fd/" + entry.Name()); err == nil {
			all = append(all, "fd "+entry.Name()+" "+target)
		}
	}
	return strings.Join(all, "\n")
}
