package words

import (
	"strings"
	"testing"
)

func TestNouns(t *testing.T) {
	for noun, want := range map[string]string{
		"owner": "an owners", "author": "an authors", "photo": "a photos", "user": "a users", "unit": "a units", "upload": "an uploads",
		"address": "an addresses", "box": "a boxes", "batch": "a batches", "wish": "a wishes", "city": "a cities", "day": "a days",
		"European city": "a European cities", "edge": "an edges",
	} {
		article, _, _ := strings.Cut(A(noun), " ")
		if got := article + " " + Plural(noun); got != want {
			t.Errorf("%s: %q, want %q", noun, got, want)
		}
		if err := (Nouns{noun, noun}).NounFaults(); err != nil {
			t.Error(err)
		}
	}
	for _, bad := range []string{"a,b", "a\nb", " a", "a ", "-", strings.Repeat("a", 41), "<b>", "é"} {
		if (Nouns{OwnerNoun: bad}).NounFaults() == nil || (Nouns{ExampleNoun: bad}).NounFaults() == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}
