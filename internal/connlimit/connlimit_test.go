package connlimit_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/connlimit"
)

// wire is a listener whose connections the test makes, each from an address of its
// choice.
type wire struct {
	arrive chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newWire() *wire { return &wire{arrive: make(chan net.Conn), closed: make(chan struct{})} }

func (w *wire) Accept() (net.Conn, error) {
	select {
	case c := <-w.arrive:
		return c, nil
	case <-w.closed:
		return nil, net.ErrClosed
	}
}

func (w *wire) Close() error {
	w.once.Do(func() { close(w.closed) })
	return nil
}

func (w *wire) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }

// end is the gateway's end of a connection. It is never closed by the client's end alone.
type end struct {
	net.Conn
	from net.Addr
}

func (e end) RemoteAddr() net.Addr { return e.from }

// world is an HTTP server with a limiter, in a synctest bubble. The path of a request
// says who sends it: /known and /unknown are answered at once, /wait stays in work until
// the client goes away.
type world struct {
	t       *testing.T
	wire    *wire
	limiter *connlimit.Limiter
	refused map[connlimit.Cause]int
	closed  map[connlimit.Cause]int
}

func newWorld(t *testing.T, cfg connlimit.Config) *world {
	t.Helper()
	w := &world{t: t, wire: newWire(), refused: map[connlimit.Cause]int{}, closed: map[connlimit.Cause]int{}}
	cfg.Refused = func(c connlimit.Cause) { w.refused[c]++ }
	cfg.Closed = func(c connlimit.Cause) { w.closed[c]++ }
	w.limiter = connlimit.New(cfg)
	server := &http.Server{
		ReadHeaderTimeout: time.Hour,
		Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case "/wait":
				connlimit.Known(r.Context())
				<-r.Context().Done()
			case "/known":
				connlimit.Known(r.Context())
			default:
				connlimit.Unknown(r.Context())
			}
		}),
	}
	w.limiter.Attach(server)
	go func() {
		if err := server.Serve(w.limiter.Listener(w.wire)); !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	}()
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if n := w.limiter.Open(); n != 0 {
			t.Errorf("%d connections are counted after the end", n)
		}
	})
	return w
}

// client is the client's end of one connection.
type client struct {
	net.Conn
	gone  chan struct{} // closed when the gateway has closed the connection
	waits bool          // it has a request in work
}

// connect opens a connection from an address.
func (w *world) connect(from string) *client {
	w.t.Helper()
	here, there := net.Pipe()
	w.wire.arrive <- end{there, net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(from), 4242))}
	c := &client{Conn: here, gone: make(chan struct{})}
	go func() {
		_, _ = io.Copy(io.Discard, here) // ends when the gateway closes its end
		close(c.gone)
	}()
	synctest.Wait()
	return c
}

// use sends a request, and comes back when it is in work or answered. While another is in
// work on the connection, it sends nothing: nobody would read that.
func (c *client) use(path string) *client {
	if c.waits {
		return c
	}
	c.waits = path == "/wait"
	_, _ = fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", path)
	synctest.Wait()
	return c
}

func (c *client) open() bool {
	synctest.Wait()
	select {
	case <-c.gone:
		return false
	default:
		return true
	}
}

// check tells which of the clients should still be connected.
func check(t *testing.T, clients map[string]*client, gone ...string) {
	t.Helper()
	want := make(map[string]bool, len(clients))
	for name := range clients {
		want[name] = true
	}
	for _, name := range gone {
		want[name] = false
	}
	for name, c := range clients {
		if c.open() != want[name] {
			t.Errorf("%s: open is %v, want %v", name, !want[name], want[name])
		}
	}
}

func TestANewcomerTakesTheSlotOfALesserLoss(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, connlimit.Config{Total: 5})
		all := map[string]*client{
			"idle, earlier": w.connect("10.0.0.1").use("/known"),
			"idle, later":   w.connect("10.0.0.2").use("/known"),
			"busy":          w.connect("10.0.0.3").use("/wait"),
			"silent":        w.connect("10.0.0.4"),
			"refused":       w.connect("10.0.0.5").use("/unknown"),
		}
		order := []string{"silent", "refused", "idle, earlier", "idle, later"}
		for i := range order {
			newcomer := w.connect("10.0.1.1").use("/wait")
			check(t, all, order[:i+1]...)
			if !newcomer.open() {
				t.Fatalf("newcomer %d found no slot", i)
			}
		}
		if late := w.connect("10.0.1.2"); late.open() {
			t.Error("a newcomer found a slot although all others are in work")
		}
		if !all["busy"].open() || w.limiter.Open() != 5 || w.closed[connlimit.Total] != 4 ||
			w.refused[connlimit.Total] != 1 {
			t.Errorf("%d are open, closed %v, refused %v", w.limiter.Open(), w.closed, w.refused)
		}
	})
}

// TestUnauthenticatedConnectionsCannotStayByBeingUsed: refused requests one after the
// other keep nobody from being the first to go, and neither does a request whose header
// does not end.
func TestUnauthenticatedConnectionsCannotStayByBeingUsed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, connlimit.Config{Total: 3})
		refused := w.connect("10.0.0.1").use("/unknown")
		slow := w.connect("10.0.0.2")
		known := w.connect("10.0.0.3").use("/known")
		refused.use("/unknown")
		_, _ = io.WriteString(slow, "GET / HTTP/1.1\r\nHost: ")
		w.connect("10.0.0.4").use("/wait")
		w.connect("10.0.0.5").use("/wait")
		check(t, map[string]*client{"refused": refused, "slow": slow, "known": known}, "refused", "slow")
	})
}

// TestAFloodLeavesWhoeverHasJustCome: many connections that are accepted together close
// others of their kind, not the one of an address that has few, although no request was
// read on it yet.
func TestAFloodLeavesWhoeverHasJustCome(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, connlimit.Config{Total: 40, Address: 20})
		flood := func() {
			for i := range 80 {
				w.connect(fmt.Sprintf("10.6.6.%d", i%3))
			}
		}
		flood()
		few := map[string]*client{}
		for i := range 20 { // more than are compared
			few[fmt.Sprint(i)] = w.connect(fmt.Sprintf("10.0.0.%d", i))
		}
		flood()
		check(t, few)
		for name, c := range few {
			if !c.use("/known").open() {
				t.Errorf("%s: its first request was not answered", name)
			}
		}
	})
}

func TestAnAddressLosesItsOwn(t *testing.T) {
	t.Parallel()
	for name, addresses := range map[string][2]string{
		"IPv4":        {"10.0.0.1", "10.0.0.1"},
		"IPv6":        {"2001:db8::1", "2001:db8::ffff:2"}, // one network
		"mapped IPv4": {"::ffff:10.0.0.1", "10.0.0.1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, connlimit.Config{Total: 10, Address: 2})
				bystander := w.connect("10.9.9.9")
				busy := w.connect(addresses[0]).use("/wait")
				silent := w.connect(addresses[1])
				third := w.connect(addresses[0]).use("/wait")
				check(t, map[string]*client{
					"bystander": bystander, "busy": busy, "silent": silent,
					"third": third,
				}, "silent")
				if w.connect(addresses[1]).open() {
					t.Error("a third connection in work from one address")
				}
				if w.closed[connlimit.Address] != 1 || w.refused[connlimit.Address] != 1 {
					t.Errorf("closed %v, refused %v", w.closed, w.refused)
				}
			})
		})
	}
}

func TestALoadBalancerIsNoAddressOfAClient(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		balancer := netip.MustParseAddr("10.0.0.1")
		w := newWorld(t, connlimit.Config{
			Total: 4, Address: 1,
			Trusted: func(a netip.Addr) bool { return a == balancer },
		})
		all := map[string]*client{}
		for i := range 3 {
			// unauthenticated, but the next may be anybody's
			all[fmt.Sprint(i)] = w.connect(balancer.String()).use("/unknown")
		}
		unauthenticated := w.connect("10.0.0.2")
		w.connect(balancer.String()).use("/wait")
		check(t, all)
		if unauthenticated.open() {
			t.Error("the unauthenticated connection stayed")
		}
	})
}

// TestSlotsAreNeverLost does at random what connections do, and counts.
func TestSlotsAreNeverLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const total, perAddress = 12, 5
		w := newWorld(t, connlimit.Config{Total: total, Address: perAddress})
		random := rand.New(rand.NewPCG(1, 2))
		byAddress := map[string][]*client{}
		paths := []string{"/known", "/unknown", "/wait"}
		for range 1500 {
			from := fmt.Sprintf("10.0.0.%d", random.IntN(6))
			mine := byAddress[from]
			switch n := random.IntN(10); {
			case n < 4 || len(mine) == 0:
				byAddress[from] = append(mine, w.connect(from))
			case n < 8:
				mine[random.IntN(len(mine))].use(paths[random.IntN(len(paths))])
			default:
				_ = mine[random.IntN(len(mine))].Close()
			}
			synctest.Wait()
			open := 0
			for address, clients := range byAddress {
				here := 0
				for _, c := range clients {
					if c.open() {
						here++
					}
				}
				open += here
				if here > perAddress {
					t.Fatalf("%d connections of %s", here, address)
				}
			}
			if open != w.limiter.Open() || open > total {
				t.Fatalf("%d are open, and %d are counted", open, w.limiter.Open())
			}
		}
	})
}

func TestMarksWithoutALimiterAreNothing(t *testing.T) {
	t.Parallel()
	connlimit.Known(context.Background())
	connlimit.Unknown(context.Background())
}

// TestANewcomerWithoutASlotReadsWhy reads what a newcomer is told: a status with a body
// that has a code.
func TestANewcomerWithoutASlotReadsWhy(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, connlimit.Config{Total: 1})
		w.connect("10.0.0.1").use("/wait")
		here, there := net.Pipe()
		defer here.Close()
		w.wire.arrive <- end{there, net.TCPAddrFromAddrPort(netip.MustParseAddrPort("10.0.0.2:4242"))}
		got, err := http.ReadResponse(bufio.NewReader(here), nil)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(got.Body)
		var told struct {
			Error struct {
				Code int
				Data struct{ Code string }
			}
		}
		if err := errors.Join(err, json.Unmarshal(body, &told)); err != nil ||
			got.StatusCode != http.StatusServiceUnavailable || got.Header.Get("Retry-After") != "1" ||
			told.Error.Code != http.StatusServiceUnavailable ||
			told.Error.Data.Code != "DB-OVERLOAD-CONNECTIONS" {
			t.Errorf("got %v %v %s, %v", got.Status, got.Header, body, err)
		}
	})
}
