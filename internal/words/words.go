// Package words holds the grammar that messages share.
package words

import (
	"fmt"
	"strconv"
	"strings"
)

// Count counts things, see [Plural]: "1 example", "2 examples", "0 examples".
func Count[N ~int | ~int64](n N, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return strconv.FormatInt(int64(n), 10) + " " + Plural(thing)
}

// Times says how much of a thing there is beside as much: "1.2 times as much", or "as much" where
// the ratio is 1 to three digits.
func Times(ratio float64) string {
	if of := fmt.Sprintf("%.3g", ratio); of != "1" {
		return of + " times as much"
	}
	return "as much"
}

// List joins a list as in a sentence: "a", "a and b", "a, b and c".
func List(list []string) string {
	if len(list) < 3 {
		return strings.Join(list, " and ")
	}
	return strings.Join(list[:len(list)-1], ", ") + " and " + list[len(list)-1]
}

// Grouped writes a number with a comma before each group of three digits: "1,803,534".
func Grouped(n int64) string {
	s := strconv.FormatInt(n, 10)
	digits := strings.TrimPrefix(s, "-")
	sign := s[:len(s)-len(digits)]
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return sign + digits
}
