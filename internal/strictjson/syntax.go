package strictjson

import (
	"bytes"
	"errors"
	"strings"

	"github.com/tailscale/hujson"
)

// Plain turns JSON with comments and trailing commas into plain JSON, in which every other byte keeps
// its place, or returns the fault of the text, with its line. The text should be short: it takes 900
// bytes of memory for each list or object that it is deep.
func Plain(b []byte) ([]byte, error) {
	if !bytes.HasPrefix(bytes.TrimSpace(b), []byte("/")) { // of a comment
		if err := Foreign(b); err != nil {
			return nil, err
		}
	}
	plain, err := hujson.Standardize(b)
	if err != nil {
		return nil, errors.New(strings.TrimPrefix(err.Error(), "hujson: "))
	}
	return plain, nil
}
