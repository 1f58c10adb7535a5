package openapi

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/sanitize"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
	"github.com/drawbridge-mcp/drawbridge/internal/strictjson"
	"github.com/drawbridge-mcp/drawbridge/registry/credential"
)

// Bounds of answers, in bytes.
const (
	maxAnswer  = 16 << 20 // of a success; a larger one becomes a tool error
	maxRefusal = 64 << 10 // of an error: as much is read
	maxExcerpt = 2_000    // of an error: as much is told the model
)

// resultTime is about how long it takes to make a result of one byte of an answer: it is
// checked, written without spaces, and quoted.
const resultTime = 15 * time.Nanosecond

// answer makes the result of a call from the answer of the API. What the API says, also
// that it refuses, is a result: the model can read it and do better. An error is only
// returned when the answer breaks off, or when claim, which holds what the answer takes
// in memory, cannot hold it. secrets are what it must not repeat.
func (c *caller) answer(ctx context.Context, response *http.Response, secrets []string,
	claim *share.Reservation,
) (mcp.Object, error) {
	status := strings.TrimSpace(fmt.Sprintf("%d %s", response.StatusCode,
		http.StatusText(response.StatusCode)))
	switch {
	case response.StatusCode >= 300 && response.StatusCode < 400 && response.Header.Get("Location") != "":
		return mcp.ToolError("The API answered " + status +
			", which leads to another address. It was not followed."), nil
	case response.StatusCode < 200 || response.StatusCode > 299:
		return refused(status, response, secrets), nil
	}
	data, err := c.read(response, claim)
	switch {
	case errors.Is(err, share.ErrTooLarge):
		return mcp.ToolError(
			fmt.Sprintf("The API answered %s with more than %d MiB, which is too much to pass on.", status,
				maxAnswer>>20)), nil
	case err != nil:
		return mcp.Object{}, c.unavailable(ctx, true, err)
	case len(bytes.TrimSpace(data)) == 0: // some libraries write a space or a line
		return mcp.TextResult("Done: the API answered " + status + "."), nil
	}
	release, err := c.turns.Finish(ctx, claim.User(), time.Duration(len(data))*resultTime)
	if err != nil {
		return mcp.Object{}, c.unavailable(ctx, true, err)
	}
	defer release()
	if err := c.hold(claim, resultSize(data)); err != nil {
		return mcp.Object{}, c.unavailable(ctx, true, err)
	}
	result := c.resultOf(status, response.Header, redact(data, secrets))
	claim.Shrink(int64(result.Size()))
	return result, nil
}

// resultOf returns the result of a call that succeeded, with the data of the answer.
func (c *caller) resultOf(status string, header http.Header, data []byte) mcp.Object {
	switch kind, mediaType := kindOf(header); kind {
	case kindJSON:
		return structured(status, data)
	case kindText:
		if utf8.Valid(data) {
			return mcp.TextResult(string(data))
		}
		return mcp.ToolError("The API answered " + status + " with text that is not UTF-8.")
	default:
		return mcp.ToolError(fmt.Sprintf("The API answered %s with %s, which cannot be passed on.", status,
			mediaType))
	}
}

// structured returns a result with a JSON value as structured content, and as text for
// clients that read only that. Any value is allowed since 2026-07-28; package server
// adapts it for clients of revisions that allow only objects there.
func structured(status string, data []byte) mcp.Object {
	// some libraries write a byte order mark:
	// https://www.rfc-editor.org/rfc/rfc8259#section-8.1
	mended, _ := strictjson.Mend(bytes.TrimPrefix(data, []byte("\uFEFF")))
	if strictjson.Check(mended) != nil {
		return mcp.ToolError("The API answered " + status + ", but its JSON cannot be read.")
	}
	compact, _ := strictjson.Compact(mended) // it was checked
	result, raw := mcp.TextResult(string(compact)), mcp.RawJSON(compact)
	if raw.IsNull() {
		return result
	}
	return result.With("structuredContent", raw)
}

// refused returns a tool error with the beginning of what the API says is wrong, when
// that is text or JSON.
func refused(status string, response *http.Response, secrets []string) mcp.Object {
	said := "The API answered " + status
	// the status says enough when the body breaks off
	data, _ := io.ReadAll(io.LimitReader(response.Body, maxRefusal))
	excerpt := strings.TrimSpace(mcp.Clip(strings.ToValidUTF8(string(redact(data, secrets)), "\uFFFD"),
		maxExcerpt))
	if kind, _ := kindOf(response.Header); kind == kindOther || excerpt == "" {
		return mcp.ToolError(said + ".")
	}
	return mcp.ToolError(said + ": " + excerpt)
}

// unzip has the body of an answer read as it was before gzip compressed it, as some APIs
// do though nobody asks for it.
func unzip(response *http.Response) {
	if !slices.Contains([]string{"gzip", "x-gzip"}, contentCoding(response.Header)) {
		return
	}
	plain, err := gzip.NewReader(response.Body)
	if err != nil {
		return // it is empty, or stays what cannot be passed on
	}
	response.Header.Del("Content-Encoding")
	response.Body, response.ContentLength = unzipped{plain, response.Body}, -1
}

// unzipped is the body of an answer, read by the Reader and closed by the Closer.
type unzipped struct {
	io.Reader
	io.Closer
}

// compressions are the codings that compress. Some APIs name something else in that
// place, such as their charset, and clients pass over it.
var compressions = []string{"gzip", "x-gzip", "deflate", "compress", "x-compress", "br", "zstd"}

// contentCoding returns how a body is compressed, "" if it is not.
func contentCoding(header http.Header) string {
	coding := strings.ToLower(strings.TrimSpace(header.Get("Content-Encoding")))
	if !slices.Contains(compressions, coding) {
		return ""
	}
	return coding
}

// kind says how the body of an answer is passed on.
type kind int

const (
	kindOther kind = iota
	kindJSON
	kindText
)

// kindOf returns the kind of a body by its Content-Type, and a name for that type, for
// messages. What parameters it has means nothing here, be they broken.
func kindOf(header http.Header) (kind, string) {
	mediaType, _, err := mime.ParseMediaType(header.Get("Content-Type"))
	switch coding := contentCoding(header); {
	case coding != "":
		return kindOther, "content compressed by " + coding
	case err != nil && !errors.Is(err, mime.ErrInvalidMediaParameter) || mediaType == "":
		return kindOther, "content of an unknown type"
	case mediaType == typeJSON || strings.HasSuffix(mediaType, "+json"):
		return kindJSON, mediaType
	case strings.HasPrefix(mediaType, "text/") || mediaType == "application/xml" ||
		strings.HasSuffix(mediaType, "+xml"):
		return kindText, mediaType
	}
	return kindOther, mcp.Clip(mediaType, 100)
}

// minSecret is the size of the shortest credential that is looked for in answers, in
// bytes. Shorter ones could occur in any answer by chance.
const minSecret = 8

// secretsOf returns the texts that no answer may repeat: the values of headers whose
// names sound like credentials, what stands behind the scheme in them (Bearer …), and
// both as JSON strings may spell them.
func secretsOf(headers map[string]string) []string {
	var secrets []string
	for name, value := range headers {
		if sanitize.NamesSecret(name) || strings.Contains(strings.ToLower(name), "session") {
			secrets = appendSpellings(secrets, value)
			_, credentials, _ := strings.Cut(value, " ")
			secrets = appendSpellings(secrets, credentials)
		}
	}
	return secrets
}

// appendSpellings appends a secret as it is and as JSON strings may spell it.
func appendSpellings(secrets []string, secret string) []string {
	if len(secret) < minSecret {
		return secrets
	}
	quoted := string(strictjson.AppendQuote(nil, secret))
	return append(secrets, secret, quoted[1:len(quoted)-1], strings.ReplaceAll(secret, "/", `\/`))
}

// secretsWith returns the texts that no answer to a request may repeat which carried g.
func (c *caller) secretsWith(g *credential.Headers) []string {
	secrets := slices.Clip(c.secrets) // others have them too
	for _, secret := range g.Secrets() {
		secrets = appendSpellings(secrets, secret)
	}
	return secrets
}

// redact removes the operator's credentials from an answer. Some APIs repeat the request
// in their answer, above all in errors, and the model and its user must not learn them.
func redact(data []byte, secrets []string) []byte {
	for _, secret := range secrets {
		if bytes.Contains(data, []byte(secret)) {
			data = bytes.ReplaceAll(data, []byte(secret), []byte("[redacted]"))
		}
	}
	return data
}
