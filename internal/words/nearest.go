package words

import (
	"slices"
	"strings"
)

// Nearest returns the only name that begins with word, or else the name at the smallest edit
// distance, which is at most a third of word's length. It returns "" if there is none. Hyphens,
// underscores and case do not count.
func Nearest(word string, names []string) string {
	plain := func(s string) string { return strings.ToLower(strings.NewReplacer("-", "", "_", "").Replace(s)) }
	begins := func(name string) bool { return len(word) > 1 && strings.HasPrefix(plain(name), plain(word)) }
	if i := slices.IndexFunc(names, begins); i >= 0 && !slices.ContainsFunc(names[i+1:], begins) {
		return names[i]
	}
	best, least := "", len(plain(word))/3+1
	for _, name := range names {
		if d := changes(plain(word), plain(name)); d < least {
			best, least = name, d
		}
	}
	return best
}

// changes returns the edit distance of two words (Damerau-Levenshtein): letters inserted, deleted
// or replaced, and neighbours swapped.
func changes(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := range len(a) {
		for j := range len(b) {
			replaced := rows[i][j]
			if a[i] != b[j] {
				replaced++
			}
			least := min(replaced, rows[i][j+1]+1, rows[i+1][j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				least = min(least, rows[i-1][j-1]+1)
			}
			rows[i+1][j+1] = least
		}
	}
	return rows[len(a)][len(b)]
}
