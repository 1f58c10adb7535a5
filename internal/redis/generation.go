package redis

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// What tells whether the server has forgotten. The generation is one random text for all
// replicas; it is replicated and saved like all else, so it is lost where everything is.
// The pulse is one a replica, and holds when it was written: a server that comes back
// with an old copy of its data has the generation, but an old pulse. In a cluster each
// node may forget by itself, so a replica has a pulse in so many slots that every node
// with pulseGap slots in a row has one.
const (
	clusterPulses = 64
	pulseGap      = 878
	generationKey = version + "generation"
	generationTTL = 30 * 24 * time.Hour
	pulseTTL      = 24 * time.Hour
	mostLoss      = time.Minute // of writes, in a failover for example, that changes no generation
)

// memory is what the goroutine of Run knows of what the server keeps.
type memory struct {
	pulseKeys []string
	began     time.Time
	first     time.Duration // since began: the pulse that was surely written first; zero: none
	last      time.Duration // since began: the pulse that was surely written last; zero: none
	lost      bool          // the server has forgotten, and the generation is not changed yet
}

func newMemory(cluster bool) memory {
	name, m := randomText()[:16], memory{began: time.Now()}
	if !cluster {
		m.pulseKeys = []string{CommonKey("pulse", name)}
		return m
	}
	for i := range clusterPulses {
		m.pulseKeys = append(m.pulseKeys, CommonKey("pulse", fmt.Sprintf("{%02d}", i), name))
	}
	return m
}

// randomText returns 32 hexadecimal digits.
func randomText() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// isGeneration tells whether a text has the form of a generation. Any other was put there
// by somebody else.
func isGeneration(text string) bool {
	return len(text) == 32 && strings.Trim(text, "0123456789abcdef") == ""
}

// renew is a script that replaces a generation, unless another replica has done so:
// KEYS[1] the key, ARGV[1] what stands there and is to be replaced, "" for nothing,
// ARGV[2] the new one, ARGV[3] its life in milliseconds. It asks for the time as other
// scripts do, so that a user who may not do that is found out.
//
//nolint:gochecknoglobals // a constant
var renew = NewScript(`
redis.call('TIME')
local found = ''
if redis.call('TYPE', KEYS[1]).ok == 'string' then found = redis.call('GET', KEYS[1]) end
if found ~= ARGV[1] and #found == 32 and not string.find(found, '[^0-9a-f]') then return found end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
return ARGV[2]`)

// check writes the pulse, which shows that writes work, and finds out whether the server
// still has what it was given. While the server is not used, check also runs a script: a
// user who may run none can write the pulse all the same, so that the server would be
// used and refuse each call, without a word in the log.
func (s *Store) check(ctx context.Context) error {
	pulse := time.Since(s.memory.began)
	commands := []Command{{Name: "GETEX", Key: generationKey, Args: []string{"PX", Millis(generationTTL)}}}
	for _, key := range s.memory.pulseKeys {
		commands = append(commands,
			Command{Name: "SET", Key: key, Args: []string{Millis(pulse), "PX", Millis(pulseTTL), "GET"}})
	}
	answers, err := s.each(ctx, commands)
	if answers == nil {
		return err
	}
	for _, a := range answers {
		if _, all := stateOf(a.err); a.err != nil && (all || errorCode(a.err) != "WRONGTYPE") {
			return a.err
		}
	}
	pulses := answers[1:]
	for i, a := range pulses {
		if found, err := a.text(); s.memory.forgotten(found, err) {
			s.memory.lost = true
		}
		if a.err == nil {
			continue
		}
		// it is of another type, and nothing was written
		if _, err := s.each(ctx, []Command{{Name: "DEL", Key: s.memory.pulseKeys[i]}}); err != nil {
			return err
		}
	}
	known, _ := s.Generation()
	text, _ := answers[0].text() // whatever else is there is no generation
	ended := !isGeneration(text) || s.memory.lost && text == known
	if ended || s.Up() != nil {
		if !ended {
			text = ""
		}
		reply, err := renew.run(ctx, s, 0, []string{generationKey},
			[]string{text, randomText(), Millis(generationTTL)})
		if err != nil {
			return err
		}
		if text, err = reply.Text(); err != nil {
			return err
		}
	}
	if s.memory.first == 0 {
		s.memory.first = pulse
	}
	s.memory.lost, s.memory.last = false, pulse
	s.enter(ctx, text)
	return nil
}

// text returns what the server has answered with; "" if that is nothing, or an error.
func (a answer) text() (string, error) {
	if a.err != nil || a.Nil() {
		return "", a.err
	}
	return a.Text()
}

// forgotten tells from the pulse that was found whether too much of what was written is
// gone. A replica that has just begun misses all its pulses when a failover loses a
// moment of writes, so for mostLoss only the generation beside them tells that more is
// lost. In a cluster that may be at another node, and a missing pulse always counts.
func (m *memory) forgotten(pulse string, err error) bool {
	if m.last == 0 {
		return false
	}
	if err == nil && pulse == "" && len(m.pulseKeys) == 1 && m.last-m.first <= mostLoss {
		return false
	}
	n, invalid := strconv.ParseInt(pulse, 10, 64)
	return err != nil || invalid != nil || time.Duration(n)*time.Millisecond < m.last-mostLoss
}

// enter notes the generation that holds now, and tells if it is another than before.
func (s *Store) enter(ctx context.Context, text string) {
	before := s.generation.Swap(&text)
	if before == nil || *before == text {
		return
	}
	s.config.Logger.ErrorContext(ctx,
		"redis has lost what replicas shared; sessions go on at their replicas, and limits begin anew")
	for _, f := range s.onGeneration {
		f()
	}
}

// Millis writes a time in milliseconds, as commands want it.
func Millis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// HasLost asks the server whether it has another generation than the one that is known
// here: then it has forgotten, and Run has yet to see that.
func (s *Store) HasLost(ctx context.Context) (bool, error) {
	reply, err := s.Do(ctx, Command{Name: "GET", Key: generationKey})
	if err != nil {
		return false, err
	}
	known, _ := s.Generation()
	text, _ := answer{Reply: reply}.text() // whatever else is there is no generation
	return text != known, nil
}
