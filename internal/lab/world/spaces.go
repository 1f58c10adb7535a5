package world

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/must"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/page"
)

// ErrNoNamespaces means that this machine, or this user, cannot have network namespaces.
// The error says why.
var ErrNoNamespaces = errors.New("network namespaces cannot be had")

const (
	bridges   = "dbchaos" // the names of bridges, before a number
	mostSpace = 200       // numbers of bridges that are tried
	firstHost = 10        // of the parts
)

// inSpaces makes a bridge and a space for each part. The spaces end with their holders;
// the bridge would outlive a crash, so those whose makers are gone are removed first.
func inSpaces(ctx context.Context, k *Keeper, dir string, parts []string) (n *network) {
	n = &network{spaces: map[string]*space{}}
	if err := must.Try(func() { n.begin(ctx, k, dir, parts) }); err != nil {
		n.close(ctx)
		panic(fmt.Errorf("%w: %w", ErrNoNamespaces, err))
	}
	return n
}

// begin makes the bridge and the spaces.
func (n *network) begin(ctx context.Context, k *Keeper, dir string, parts []string) {
	canHaveSpaces()
	removeLeftovers(ctx)
	number := n.addBridge(ctx)
	host := func(last int) string { return fmt.Sprintf("10.213.%d.%d", number, last) }
	n.outside, n.balancer, n.trusted = host(1), host(2), host(0)+"/30"
	script := []string{fmt.Sprintf("address add %[2]s/24 dev %[1]s\naddress add %[3]s/24 dev %[1]s\n"+
		"link set %[1]s up\n", n.bridge, n.outside, n.balancer)}
	for i, part := range parts {
		holder := k.Start(Order{Dir: dir, Command: []string{"sleep", "infinity"}, space: true})
		n.spaces[part] = &space{host: host(firstHost + i), holder: holder}
		script = append(script, fmt.Sprintf("link add %[1]s-%[2]d type veth peer name eth0 netns %[3]d\n"+
			"link set %[1]s-%[2]d master %[1]s up\n", n.bridge, i, holder.PID()))
	}
	Run(ctx, strings.Join(script, ""), "ip", "-batch", "-")
	for part, s := range n.spaces {
		script := fmt.Sprintf("address add %s/24 dev eth0\nlink set eth0 up\nlink set lo up\n", s.host)
		Run(ctx, script, n.command(part, "ip", "-batch", "-")...)
	}
}

// canHaveSpaces says what is missing for spaces.
func canHaveSpaces() {
	must.Be(os.Geteuid() == 0, "only root may make them")
	for _, name := range []string{"ip", "nsenter", "iptables", "sleep"} {
		must.Have(exec.LookPath(name))
	}
}

// addBridge makes a bridge that has no name of another, and with it takes its number. The
// alias says who made it.
func (n *network) addBridge(ctx context.Context) (number int) {
	var err error
	for number = range mostSpace {
		name := bridges + strconv.Itoa(number)
		err = must.Try(func() { Run(ctx, "", "ip", "link", "add", "name", name, "type", "bridge") })
		if err == nil {
			n.bridge = name
			Run(ctx, "", "ip", "link", "set", name, "alias", strconv.Itoa(os.Getpid()))
			return number
		}
		if _, taken := os.Stat("/sys/class/net/" + name); taken != nil {
			break
		}
	}
	panic(err)
}

// removeLeftovers removes bridges of processes that are gone. One without an alias is
// just being made.
func removeLeftovers(ctx context.Context) {
	files, _ := filepath.Glob("/sys/class/net/" + bridges + "*/ifalias") // the pattern is good
	for _, file := range files {
		text, _ := os.ReadFile(file) //nolint:gosec // a file of the kernel; without it there is no bridge any more
		pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
		if err == nil && errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			removeBridge(ctx, filepath.Base(filepath.Dir(file)))
		}
	}
}

// close removes the bridge. The spaces end with their holders.
func (n *network) close(ctx context.Context) {
	if n.bridge != "" {
		removeBridge(ctx, n.bridge)
		n.bridge = ""
	}
}

// removeBridge removes a bridge after what is plugged into it. That would go with its
// spaces, but connections that still wait for an answer keep these for minutes.
func removeBridge(ctx context.Context, name string) {
	plugs, _ := filepath.Glob("/sys/class/net/" + name + "-*") // as above
	script := page.Rows(append(plugs, name), func(plug string) string {
		return "link delete " + filepath.Base(plug) + "\n"
	})
	_ = must.Try(func() { Run(ctx, script, "ip", "-force", "-batch", "-") }) // some may be gone by now
}
