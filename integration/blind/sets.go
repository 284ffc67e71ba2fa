package main

import (
	"fmt"
	"io"
	"math/rand/v2"
)

// set is a data set, and a user's request for it: flags of minsep plan.
type set struct {
	name, about string
	flags       []string
	perOwner    int                     // --max-per-owner; 0 for numbered examples
	graph       string                  // file, for sets with a graph
	make        func(w io.Writer) error // writes graph where it is not there; nil where it is in the repository
}

// sets were written down, and committed, before any plan was made of them.
func sets() []set {
	return []set{
		{name: "genes", about: "754,859 articles about 46,898 genes, several examples per owner and several owners per example", perOwner: 2,
			graph: "integration/testdata/gene2pubmed.tsv.gz",
			flags: []string{"--steps", "400", "--batch-size", "512", "--epsilon", "4", "--delta", "1e-6", "--memory", "inf"}},
		{name: "photos", about: "50,000 examples, each of its own owner, 4 epochs",
			flags: []string{"--examples", "50000", "--epochs", "4", "--batch-size", "250", "--epsilon", "2", "--delta", "1e-5", "--workload", "momentum", "--schedule", "cooldown", "--objective", "rmse"}},
		{name: "clinic", about: "2,000 examples, each of its own owner, by the largest error of a step",
			flags: []string{"--examples", "2000", "--steps", "200", "--batch-size", "40", "--epsilon", "1", "--delta", "1e-4", "--objective", "maxse", "--memory", "inf"}},
		{name: "phones", about: "3,000 owners of 1 to 20 examples, one owner per example", perOwner: 3,
			graph: "phones.csv", make: phones,
			flags: []string{"--steps", "150", "--batch-size", "100", "--epsilon", "8", "--delta", "1e-4", "--memory", "inf"}},
		{name: "web", about: "10,000,000 examples, each of its own owner, at most 32 bands",
			flags: []string{"--examples", "10000000", "--steps", "2000", "--batch-size", "16384", "--epsilon", "6", "--delta", "1e-8", "--max-bands", "32",
				"--workload", "momentum", "--schedule", "linear-decay", "--objective", "rmse"}},
	}
}

// phones writes owners; many of them have few examples.
func phones(w io.Writer) error {
	if _, err := fmt.Fprintln(w, "example_id,owner_id"); err != nil {
		return err
	}
	random := rand.New(rand.NewPCG(1, 2))
	example := 0
	for owner := range 3000 {
		u := random.Float64()
		for range 1 + int(20*u*u*u) {
			if _, err := fmt.Fprintf(w, "%d,%d\n", example, owner); err != nil {
				return err
			}
			example++
		}
	}
	return nil
}
