package main

import "testing"

func TestCount(t *testing.T) {
	for text, want := range map[string]Count{
		"":                              {},
		"What it is, and whatever":      {5, [3]int{1, 0, 0}},
		"the sum of those\nof the rows": {7, [3]int{0, 1, 0}},
		"rows of which some, whose owner; of whom": {8, [3]int{0, 0, 3}},
	} {
		if got := count(text); got != want {
			t.Errorf("count(%q) = %v, want %v", text, got, want)
		}
	}
}

func TestComments(t *testing.T) {
	code, _, err := tree("../..")
	if err != nil {
		t.Fatal(err)
	}
	all := sum(code)
	if all.Words < 50_000 {
		t.Fatalf("%d words of comments: were they read?", all.Words)
	}
	for i, h := range heavy {
		if got := all.PerThousand(i); got > h.most {
			t.Errorf("%q: %.2f in 1,000 words of comments, at most %g: run go run ./words, and give sentences a noun", h.name, got, h.most)
		}
	}
}
