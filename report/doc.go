// Package report makes one page of HTML of a run directory, for people who have to be convinced
// of it: a verdict, the promise and whom it is for, the secrets, the duties left to the
// trainer, and figures with the numbers behind them. The page needs no network and no script.
// It rests on package inspect, and trusts the files that it reads as little.
//
// A page is public: realised batch sizes and participations are in it only where they are asked
// for, and its title says so then.
//
// Stability: may change with every release.
package report
