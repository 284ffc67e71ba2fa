// Package digest holds the type of the SHA-256 digests in run directories.
package digest

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
)

// SHA256 is a SHA-256 digest. In JSON it is 64 hexadecimal digits.
type SHA256 [sha256.Size]byte

// Of returns the digest of everything that r returns.
func Of(r io.Reader) (d SHA256, err error) {
	sum := sha256.New()
	_, err = io.Copy(sum, r)
	return SHA256(sum.Sum(nil)), err
}

func (d SHA256) String() string { return hex.EncodeToString(d[:]) }

// MarshalText writes 64 hexadecimal digits.
func (d SHA256) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads the output of MarshalText.
func (d *SHA256) UnmarshalText(b []byte) error {
	if len(b) != hex.EncodedLen(len(d)) {
		return fmt.Errorf("SHA-256 of %d digits: must be %d", len(b), hex.EncodedLen(len(d)))
	}
	if _, err := hex.Decode(d[:], b); err != nil {
		return fmt.Errorf("SHA-256: %w", err)
	}
	return nil
}
