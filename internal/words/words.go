// Package words has the grammar that messages share.
package words

import "fmt"

// Count counts things whose plural has an s: "1 example", "2 examples", "0 examples".
func Count[N ~int | ~int64](n N, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
