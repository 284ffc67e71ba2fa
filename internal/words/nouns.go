package words

import (
	"cmp"
	"regexp"
	"strings"

	"minsep/internal/param"
)

// Nouns are a user's words for owner and example, in the singular, such as author and photo. They
// decide nothing. An empty one stands for the word itself.
type Nouns struct {
	OwnerNoun   string `json:"owner_noun,omitempty" flag:"owner-noun" help:"what an owner is in these data, such as author, for messages and reports (default owner)"`
	ExampleNoun string `json:"example_noun,omitempty" flag:"example-noun" help:"what an example is in these data, such as photo, for messages and reports (default example)"`
}

// UsualNouns are the words for which users give others.
var UsualNouns = Nouns{"owner", "example"}

// nounForm matches a noun that breaks no line, and no sentence.
var nounForm = regexp.MustCompile(`^[A-Za-z]([A-Za-z _-]{0,38}[A-Za-z])?$`)

// NounFaults returns the faults of the nouns that are given.
func (n Nouns) NounFaults() error {
	c := param.Checker{}
	const rule = "must be a noun of at most 40 letters, in the singular, such as author"
	c.Require(n.OwnerNoun == "" || nounForm.MatchString(n.OwnerNoun), "owner-noun", n.OwnerNoun, rule)
	c.Require(n.ExampleNoun == "" || nounForm.MatchString(n.ExampleNoun), "example-noun", n.ExampleNoun, rule)
	return c.Err()
}

// NounsOr returns the nouns, with other's in place of those that are not given.
func (n Nouns) NounsOr(other Nouns) Nouns {
	return Nouns{cmp.Or(n.OwnerNoun, other.OwnerNoun), cmp.Or(n.ExampleNoun, other.ExampleNoun)}
}

// esPlural matches nouns with a plural in es, yPlural those with one in ies.
var (
	esPlural = regexp.MustCompile(`(s|x|ch|sh)$`)
	yPlural  = regexp.MustCompile(`[^aeiou]y$`)
)

// Plural returns the plural of a regular noun.
func Plural(noun string) string {
	switch {
	case esPlural.MatchString(noun):
		return noun + "es"
	case yPlural.MatchString(noun):
		return strings.TrimSuffix(noun, "y") + "ies"
	}
	return noun + "s"
}

// vowel matches words that begin with the sound of a vowel, by their letters: not user, unit, European.
var vowel = regexp.MustCompile(`(?i)^([aio]|e[^u]|u[^s]([^i]|$))`)

// A puts the article before a noun.
func A(noun string) string {
	if vowel.MatchString(noun) {
		return "an " + noun
	}
	return "a " + noun
}
