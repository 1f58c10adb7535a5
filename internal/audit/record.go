package audit

import (
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/drawbridge-mcp/drawbridge/internal/strictjson"
)

// Bounds of the fields, in bytes before they are escaped. Each field has one of its own,
// so that nobody who chooses a text can fill the disk, and the longest line is known.
const (
	maxString = 256  // of a name, such as an issuer, a subject or an item
	maxShort  = 64   // of what is short: an address, a word of ours, a client's name
	maxID     = 128  // of the id of a request, and of a digest
	maxList   = 8    // the most texts of a list
	maxTexts  = 768  // of all texts of a list
	maxScopes = 6144 // of all scopes: about as many as a token has room for

	maxClaims = 512 // of the values of all claims
)

// Bounds of claims and of arguments: how many there are at most, how long the name of
// one is, and to how many bytes its value is cut.
const (
	MaxMembers    = 8
	MaxMemberName = 64
	MaxValue      = 128
)

// IsName tells whether a claim or an argument of that name can be on record.
func IsName(text string) bool { return isScope(text) && len(text) <= MaxMemberName }

// MayBeCut tells whether the name of an item in the file may be the beginning of a longer
// one: it is as long as what is left of that, without half a character at its end.
func MayBeCut(name string) bool { return len(name) > maxString-utf8.UTFMax }

// escapedLen is how long a byte gets at most: an escape such as \u001b.
const escapedLen = 6

// maxLine is the length in bytes of the longest possible line, which is what Book
// reserves. Scopes have only characters that are not escaped. 2048 is enough for
// everything else: the names of the members, quotation marks, the time, the numbers, and
// what a call waited for.
const maxLine = escapedLen*(8*maxString+ // issuer, subject, name, client_id, item, whole_name, rule, found
	// tenant, client, client_version, remote, session, method, server, outcome, reason,
	// argument, config
	11*maxShort+
	5*maxID+ // request_id, call_id, token_id, claim, arguments
	2*maxTexts+ // audience, expected
	maxClaims+MaxMembers*MaxValue) + // values of claims and of named_arguments
	2*MaxMembers*MaxMemberName + // their names
	maxTexts + maxScopes + // missing, scopes
	2048

// Members are named values, in their order: each is a name and a value. Their names have
// visible ASCII without quotation marks and backslashes; one that has not is left out.
type Members = [][2]string

// Record is one line of the file, as far as its fields are set: those that are zero are
// left out, except Time. When it is written, each field is cut to its bound, so that
// nobody who chooses one can fill the disk. It never holds a token, a secret or a result,
// and of arguments those alone that the operator names.
type Record struct {
	Time      time.Time
	RequestID string
	CallID    string // the request id of the first round, on the records of a call that has several rounds
	TenantID  string
	Issuer    string
	Subject   string
	Name      string // what people call the subject, on which nothing is decided
	TokenID   string // of the token
	Claims    Members
	ClientID  string
	Scopes    []string // of the token
	Ruled     []string // which of Scopes are recorded, sorted: those that rules of the tenant name; nil: none
	Client    string   // what the client calls itself
	Version   string   // and its version, as it says
	Remote    string   // client address
	Session   string   // the beginning of its name in the log
	Method    string
	Server    string // upstream or built-in source
	// exposed name from the catalogue; if the catalogue does not know it, what the caller
	// wrote
	Item string
	// of Item with its server, behind the prefix, where Item is cut or spelt in other
	// characters
	WholeName string
	Outcome   string   // ok, tool_error, input_required, or the kind of refusal or failure
	Reason    string   // one word of ours
	Argument  string   // JSON Pointer of the first argument that does not fit, as far as the schema names it
	Rule      string   // where the rule stands that refused the call, file:line
	Missing   []string // scopes that the rule wants and the token lacks
	Arguments string   // digest, as Keys.Digest returns it
	Named     Members  // arguments that the operator wants on record, without secrets
	Duration  time.Duration
	Wait      time.Duration // before the item was used, and for its answer to be cleaned
	WaitedFor string        // what took most of Wait, in one word of ours
	Upstream  time.Duration // of Duration, in which the item was used
	Repairs   int           // how many changes output cleaning made in the result
	Config    string        // the beginning of the digest of the config that decided

	// Count is how many refusals one record stands for, from Time on for as long as
	// Duration says. Zero: the record is no such sum and stands for itself.
	Count int

	// Audience is what a refused token says that it is for, and Expected what it should
	// say. Audience is nil unless that is why it was refused, and its signature was
	// verified.
	Audience, Expected []string
	// Claim is the one that was the fault of a refused token, Found the JSON that stands
	// there, and Expected what could, as far as that can be listed. Both are "" unless a
	// claim was the fault, and the signature was verified.
	Claim, Found string
}

// appendLine appends r to dst as one JSON object and a line break. Fields that are zero
// are left out. The line is made by hand instead of by an encoder, so that its longest
// length is known and nothing in it is hidden from a reader.
func (r *Record) appendLine(dst []byte) []byte {
	dst = append(dst, `{"time":"`...)
	dst = append(r.Time.UTC().AppendFormat(dst, time.RFC3339Nano), '"')
	dst = appendFields(dst,
		field{`,"request_id":`, r.RequestID, maxID}, field{`,"call_id":`, r.CallID, maxID},
		field{`,"tenant":`, r.TenantID, maxShort}, field{`,"issuer":`, r.Issuer, maxString},
		field{`,"subject":`, r.Subject, maxString}, field{`,"name":`, r.Name, maxString},
		field{`,"token_id":`, r.TokenID, maxID})
	dst = appendMembers(dst, `,"claims":{`, r.Claims, maxClaims)
	dst = appendFields(dst, field{`,"client_id":`, r.ClientID, maxString})
	if r.Ruled != nil {
		dst = appendScopes(dst, `,"scopes":[`, r.Scopes, maxScopes, r.Ruled)
	}
	dst = appendFields(dst,
		field{`,"client":`, r.Client, maxShort}, field{`,"client_version":`, r.Version, maxShort},
		field{`,"remote":`, r.Remote, maxShort}, field{`,"session":`, r.Session, maxShort},
		field{`,"method":`, r.Method, maxShort}, field{`,"server":`, r.Server, maxShort},
		field{`,"item":`, r.Item, maxString}, field{`,"whole_name":`, r.WholeName, maxString},
		field{`,"outcome":`, r.Outcome, maxShort}, field{`,"reason":`, r.Reason, maxShort},
		field{`,"wrong_argument":`, r.Argument, maxShort}, field{`,"rule":`, r.Rule, maxString})
	if len(r.Missing) > 0 {
		dst = appendScopes(dst, `,"missing":[`, r.Missing, maxTexts, r.Missing)
	}
	dst = appendFields(dst, field{`,"arguments":`, r.Arguments, maxID})
	dst = appendMembers(dst, `,"named_arguments":{`, r.Named, MaxMembers*MaxValue)
	dst = appendNumber(dst, `,"duration_seconds":`, r.Duration.Seconds())
	dst = appendNumber(dst, `,"wait_seconds":`, r.Wait.Seconds())
	dst = appendFields(dst, field{`,"waited_for":`, r.WaitedFor, maxShort})
	dst = appendNumber(dst, `,"upstream_seconds":`, r.Upstream.Seconds())
	dst = appendNumber(dst, `,"repairs":`, float64(r.Repairs))
	dst = appendFields(dst, field{`,"config":`, r.Config, maxShort})
	dst = appendTexts(dst, `,"audience":[`, r.Audience)
	dst = appendFields(dst, field{`,"claim":`, r.Claim, maxID}, field{`,"found":`, r.Found, maxString})
	dst = appendTexts(dst, `,"expected":[`, r.Expected)
	dst = appendNumber(dst, `,"count":`, float64(r.Count))
	return append(dst, '}', '\n')
}

// field is a member of a line whose value is a text.
type field struct {
	name string // everything that stands before the text: comma, quoted name and colon
	text string
	most int // bytes of the text
}

// appendFields appends the fields that are not empty.
func appendFields(dst []byte, fields ...field) []byte {
	for _, f := range fields {
		if f.text != "" {
			dst = appendQuoted(append(dst, f.name...), f.text, f.most)
		}
	}
	return dst
}

// appendNumber appends a member whose value is a number, unless it is zero. The name is
// everything that stands before it.
func appendNumber(dst []byte, name string, n float64) []byte {
	if n == 0 {
		return dst
	}
	return strconv.AppendFloat(append(dst, name...), n, 'f', -1, 64)
}

// appendScopes appends a member whose value is a list of scopes: those that are in named,
// as far as there is room. They have the characters of the standard, none of which is
// escaped; another scope is left out.
func appendScopes(dst []byte, name string, scopes []string, space int, named []string) []byte {
	dst = append(dst, name...)
	for _, scope := range scopes {
		if !slices.Contains(named, scope) || !isScope(scope) {
			continue
		}
		if space -= len(scope) + len(`"",`); space < 0 {
			break
		}
		dst = append(append(append(separated(dst), '"'), scope...), '"')
	}
	return append(dst, ']')
}

// isScope tells whether a text has the characters that a scope may have, none of which is
// escaped. Names of claims and arguments have no others either.
// https://www.rfc-editor.org/rfc/rfc6749#section-3.3
func isScope(text string) bool {
	return text != "" && !strings.ContainsFunc(text, func(c rune) bool {
		return c <= ' ' || c >= 0x7F || c == '"' || c == '\\'
	})
}

// appendTexts appends a member whose value is a list of texts, unless the list is empty.
// name is everything that stands before the first text: comma, quoted name, colon and
// bracket.
func appendTexts(dst []byte, name string, texts []string) []byte {
	if len(texts) == 0 {
		return dst
	}
	dst = append(dst, name...)
	space := maxTexts
	for _, text := range texts[:min(len(texts), maxList)] {
		text = cut(text, min(space, maxString))
		space -= len(text)
		dst = appendQuoted(separated(dst), text, maxString)
	}
	return append(dst, ']')
}

// appendMembers appends a member whose value is an object of texts, unless there are
// none. space is that of all values.
func appendMembers(dst []byte, name string, members Members, space int) []byte {
	if len(members) == 0 {
		return dst
	}
	dst = append(dst, name...)
	for _, m := range members[:min(len(members), MaxMembers)] {
		if !IsName(m[0]) {
			continue
		}
		dst = append(append(append(separated(dst), '"'), m[0]...), `":`...)
		value := cut(m[1], min(space, MaxValue))
		space -= len(value)
		dst = appendQuoted(dst, value, MaxValue)
	}
	return append(dst, '}')
}

// separated appends the comma between two elements, none before the first.
func separated(dst []byte) []byte {
	if last := dst[len(dst)-1]; last == '[' || last == '{' {
		return dst
	}
	return append(dst, ',')
}

// appendQuoted appends text, cut and escaped. The texts come from clients and servers. A
// line break, a terminal escape or an invisible character in one of them must not be able
// to start a second line or to show a reader of the file something other than what is
// there.
func appendQuoted(dst []byte, text string, most int) []byte {
	return strictjson.AppendVisibleQuote(dst, cut(text, most))
}

// cut returns at most that many of the first bytes of text, without half a character at
// their end.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	end := most
	for end > max(0, most-utf8.UTFMax) && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end]
}
