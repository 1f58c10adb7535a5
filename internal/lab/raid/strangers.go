package raid

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/client"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/world"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// refusedLogins tries tokens with wrong signatures, each another one.
var refusedLogins = Attack{
	Name: "refused logins", Stranger: true,
	Does:    "64 connections try tokens with a wrong signature, each another one",
	Raiders: 64,
	Begin: func(_ context.Context, r *Raider) func() {
		q := r.call("echo", `{"message":"hello"}`)
		signed := q.Token[:strings.LastIndex(q.Token, ".")+1]
		tried := 0
		return func() {
			tried++
			q.Token = signed + fmt.Sprintf("%08d%08d", r.number, tried) + strings.Repeat("A", 27)
			r.exchange(q.Bytes())
		}
	},
	Signs: Signs{Refused: 1, Vain: true},
}

const connectionsEach = 64 // that one raider holds

// strangers opens connections without a token, and keeps them after the refusal.
var strangers = Attack{
	Name: "connections without a token", Stranger: true,
	Does: "128 raiders open connections, get one 401 on each, hold up to 64 (8,192 in all) and replace " +
		"the oldest",
	Raiders: 128,
	Begin: func(_ context.Context, r *Raider) func() {
		ask := client.Request{
			Addr: r.mission.Addr, Method: http.MethodGet,
			Revision: mcp.LatestModern,
		}.Bytes()
		return r.hoard(connectionsEach, func(w *client.Conn) bool {
			r.counted(w.Exchange(ask, kept))
			return true
		})
	},
	Signs: Signs{Held: 128, Vain: true},
}

// logFloods sends what may each be a line of the log.
var logFloods = Attack{
	Name: "floods of the log", Stranger: true,
	Does: "4 raiders without a token ask for long paths that are not there, for the metadata, as a " +
		"foreign page, " +
		"and for the endpoint, and connect anew after every eighth request, some hundred a second in all",
	Raiders: 4,
	Begin: func(ctx context.Context, r *Raider) func() {
		path := "/" + strings.Repeat("%01", 128)
		var all [][]byte
		for _, line := range [][2]string{
			{path},
			{"/.well-known/oauth-protected-resource/mcp"},
			{"/mcp", "Origin: https://foreign.test\r\n"},
			{"/mcp"},
		} {
			all = append(all, fmt.Appendf(nil, "GET %s HTTP/1.1\r\nHost: %s\r\n%s\r\n", line[0],
				r.mission.Addr, line[1]))
		}
		sent := 0
		return func() {
			if sent++; sent%8 == 0 {
				r.line.Close()
			}
			// as many lines fill a disk, and leave the processors to others
			defer world.Pause(ctx, 5*time.Millisecond)
			r.exchange(all[sent%len(all)])
		}
	},
	Signs: Signs{Replies: 1},
}
