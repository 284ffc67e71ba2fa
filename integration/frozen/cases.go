package main

import "fmt"

// A claim is a certificate that users have: the flags of `minsep account` without samples and folder.
type claim struct {
	name    string
	flags   string
	samples int
}

// claims are the cases whose noise multiplier and CPU time must not get worse. Each name says the
// scheme, the separation (or the steps of an epoch) and the steps, and ends in ε where it varies.
//
// What a proof technique of docs/formulas.md is worth was measured without it, one at a time:
//
//	F4.2, the recursion of two examples   two an owner: σ .671 in place of .573
//	F3.4, a step for each pattern         balls-in-bins: the same, with 4.0 × CPU
//	F5.5r, pairs by whole periods         rotation 138/1000 and 8 pools by tables of steps: .772 and .822 in place of .778 and .829, with 18 to 19 × CPU
//	F5.5r, the bound of N_3               rotation 1800/7200: no certificate; 138/1000: .776 in place of .778, 8 pools: .834 of .829
//	plain samples of drawn ratios         two, eight, sampled and 500 owners: the same; went
//	F5.4, tangents                        500 owners: 5.18 in place of 4.53; eight an owner: no certificate
//	F5.9, merged labels                   eight an owner: no certificate; two an owner: the same
//	F5.14, parts of the run               one pass of 10000, 16 bands, ε 2: .705 in place of .687, ε 1: .960 in place of .796;
//	                                      256 bands, ε 2 and 1: the same; of 100000, 16 bands, ε 2: no certificate with or without them
//	F5.15, classes of steps               one pass of 10000, ε 8 and 2: the same, with 1.2 to 3.1 × CPU
//	transforms of many bands              one pass of 10000, 256 bands, ε 2: the same, with 1.9 × CPU; 64 bands: 1.03 ×
//	F5.3, the joint of long walks         production 256/7200: the same, with 3.6 GiB in place of .9
//	tables that grow with an estimate     epochs 250/1000: .585 in place of .558; 64 bands, 16/1000, ε 8: the same
//	tables kept for a verifier,
//	patience with shorter blocks          two, eight, sampled and 500 owners: the same; went
//	several orders in one proposal        one pass of 10000, 256 bands, ε 2 and 1: the same; went
//	                                      (the estimate of balls-in-bins with a tree of papers: ± 1.35 % in place of .9 %)
func claims() []claim {
	all := []claim{
		{"production 256/7200, ε 10", "--steps 7200 --min-sep 256 --batch-size 1793 --examples 14745600 --bands 256 --epsilon 10 --delta 1.301e-8", 40000},
		{"production at most once, ε 10", "--steps 7200 --min-sep 7200 --batch-size 1793 --examples 14745600 --bands 256 --epsilon 10 --delta 1.301e-8", 40000},
		{"64 bands of 4000, ε 8", "--steps 4000 --min-sep 64 --batch-size 256 --examples 400000 --bands 64 --epsilon 8 --delta 1e-6", 50000},
		{"epochs 250/1000, ε 8", "--scheme epoch-min-sep --steps 1000 --epoch-steps 250 --min-sep 16 --examples 50000 --bands 16 --epsilon 8 --delta 1e-5", 50000},
		{"epochs 125/1000, ε 8", "--scheme epoch-min-sep --steps 1000 --epoch-steps 125 --min-sep 16 --examples 50000 --bands 16 --epsilon 8 --delta 1e-5", 50000},
		{"rotation 138/1000, ε 8", "--scheme rotation --steps 1000 --epoch-steps 138 --examples 50000 --bands 16 --epsilon 8 --delta 1e-5", 50000},
		{"rotation 1800/7200, ε 8", "--scheme rotation --steps 7200 --epoch-steps 1800 --examples 1000000 --bands 64 --epsilon 8 --delta 1e-7", 50000},
		{"rotation 8 pools, ε 8", "--scheme rotation --steps 1000 --epoch-steps 125 --examples 50000 --bands 16 --epsilon 8 --delta 1e-5", 50000},
		{"allocation 4 of 250, ε 8", "--scheme epoch-min-sep --steps 1000 --epoch-steps 250 --min-sep 1 --examples 50000 --bands 1 --epsilon 8 --delta 1e-5", 50000},
		{"two an owner, ε 8", "--steps 1000 --min-sep 16 --batch-size 50 --examples 50000 --max-per-owner 2 --bands 16 --epsilon 8 --delta 1e-5", 50000},
		{"eight an owner, ε 8", "--steps 1000 --min-sep 16 --batch-size 50 --examples 50000 --max-per-owner 8 --bands 16 --epsilon 8 --delta 1e-5", 50000},
		{"sampled owners, ε 8", "--steps 1000 --min-sep 16 --prob 0.001 --sample owners --examples-per-owner 4 --bands 16 --epsilon 8 --delta 1e-5", 50000},
		{"balls in 125 bins, ε 8", "--scheme balls-in-bins --steps 1000 --min-sep 125 --examples 50000 --bands 16 --epsilon 8 --delta 1e-5", 50000},
		{"at most 100 a batch, ε 8", "--steps 1000 --min-sep 16 --batch-size 50 --examples 50000 --max-batch-size 100 --bands 16 --epsilon 8 --delta 1e-5", 50000},
		{"20 epochs of 500 owners, ε 2", "--scheme epoch-min-sep --steps 200 --epoch-steps 10 --min-sep 5 --examples 500 --bands 5 --epsilon 2 --delta 1e-3", 50000},
		{"federated, 6 of 2000, ε 8", "--scheme fixed --steps 2000 --batch-size 300 --examples 100000 --min-sep 300 --max-participations 6 --strategy blt.json --epsilon 8 --delta 1e-6", 50000},
	}
	for _, epsilon := range []int{8, 2, 1} {
		all = append(all, claim{fmt.Sprintf("16/1000, ε %d", epsilon),
			fmt.Sprintf("--steps 1000 --min-sep 16 --batch-size 50 --examples 50000 --bands 16 --epsilon %d --delta 1e-5", epsilon), 50000})
		for _, steps := range []int{10000, 100000} {
			for _, bands := range []int{16, 256} {
				all = append(all, claim{fmt.Sprintf("one pass of %d, %d bands, ε %d", steps, bands, epsilon),
					fmt.Sprintf("--scheme epoch-min-sep --steps %d --epoch-steps %d --min-sep %d --examples 10000000 --bands %d --epsilon %d --delta 1e-9",
						steps, steps, steps, bands, epsilon), 50000})
			}
		}
	}
	return all
}

// works are whole commands whose CPU time must not get worse. They run in one folder, in this
// order, before the claims, which read a strategy from it.
var works = []struct{ name, flags string }{
	{"", "keygen key"},
	{"", "strategy --kind blt --steps 2000 --min-sep 300 --max-participations 6 --out blt.json"},
	{"", "strategy --kind banded-toeplitz --bands 16 --steps 1000 --out bands.json"},
	{"bound, 1.8e6 edges", "bound --graph graph.tsv.gz --max-per-owner 1 --key key --out run"},
	{"draw, 1e7 participations", "form --examples 1000000 --scheme b-min-sep --steps 1000 --min-sep 16 --batch-size 10000 --key key --out drawn"},
	{"noise, 1e8 values", "noise --strategy bands.json --noise-multiplier 1 --clip-norm 1 --steps 1000 --coordinates 100000 --files --key key --out noise"},
	{"plan, 1000 steps", "plan --examples 50000 --steps 1000 --batch-size 64 --epsilon 8 --delta 1e-5 --coordinates 100000 --out plan.json"},
}
