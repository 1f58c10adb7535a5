package world

import (
	"net"
	"slices"
	"strconv"

	"github.com/drawbridge-mcp/drawbridge/internal/freeport"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/must"
)

const loopback = "127.0.0.1"

// network says where parts listen and how they are started. All are on loopback, or in
// spaces:
//
//	crowd, balancer, proxies, upstreams    bridge dbchaosN     spaces, each with a process that holds it
//	  10.213.N.1 (us), .2 (balancer)  ─────────┬──────────────  10.213.N.10  replica-0
//	                                           └──────────────  10.213.N.11  …
//
// The spaces have no route to anywhere else.
type network struct {
	outside  string            // the host at which proxies listen, and from which they and we connect
	balancer string            // the host from which the balancer connects; equal to outside on loopback
	trusted  string            // both, as a network
	bridge   string            // its name; "": all is on loopback
	spaces   map[string]*space // by part
}

// space is the network namespace of one part.
type space struct {
	host   string
	holder *Process // a process that does nothing there
}

// host returns where a part listens.
func (n *network) host(part string) string {
	if s := n.spaces[part]; s != nil {
		return s.host
	}
	return n.outside
}

// address returns an address for a part that nobody listens at.
func (n *network) address(part string) string {
	return net.JoinHostPort(n.host(part), strconv.Itoa(must.Have(freeport.Take())))
}

// command returns how to start a program as a part. The program gets the process id of
// what is started.
func (n *network) command(part string, command ...string) []string {
	if s := n.spaces[part]; s != nil {
		return slices.Concat([]string{"nsenter", "--net=" + s.path(), "--"}, command)
	}
	return command
}

// path is the file of the namespace.
func (s *space) path() string {
	return "/proc/" + strconv.Itoa(s.holder.command.Process.Pid) + "/ns/net"
}
