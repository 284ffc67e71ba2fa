// Package report makes one page of HTML of a run directory, for people who have to be convinced of
// it: a verdict, what is promised to whom, what stays secret, what is left to the trainer, and
// figures with the numbers behind them. The page needs no network and no script. It trusts what it
// reads as little as package inspect does, on which it rests.
//
// A page is public: realised batch sizes and participations are in it only where they are asked
// for, and its title says so then.
//
// Stability: may change with every release.
package report
