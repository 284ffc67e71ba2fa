package packed

import (
	"bytes"
	"fmt"
)

// Groups calls record for every record that each gives, in order, and end after the last record of
// every group. The key of a record is its first n = keyLen(record) bytes, and the records of a group
// have one key. first is true for the first record of a group.
func Groups(
	each func(func(record []byte) error) error,
	keyLen func(record []byte) (int, error),
	record func(record []byte, n int, first bool) error,
	end func() error,
) error {
	var key []byte
	any := false
	err := each(func(r []byte) error {
		n, err := keyLen(r)
		if err != nil {
			return err
		}
		first := !any || !bytes.Equal(key, r[:n])
		if first {
			if any {
				if err := end(); err != nil {
					return err
				}
			}
			any, key = true, append(key[:0], r[:n]...)
		}
		return record(r, n, first)
	})
	if err == nil && any {
		err = end()
	}
	return err
}

// FixedKey is the keyLen of keys of n bytes. A record is longer.
func FixedKey(n int) func([]byte) (int, error) {
	return func(record []byte) (int, error) {
		if len(record) <= n {
			return 0, fmt.Errorf("malformed record of %d bytes", len(record))
		}
		return n, nil
	}
}
