// Package report makes one page of HTML of a run directory, for people who have to be convinced of
// it. The page has a verdict, the promise and whom it protects, the secrets, the duties of the
// trainer, and tables with bars. It needs no network and no script. It rests on
// package inspect, and trusts the files that it reads as little.
//
// A page is public: it has no realised batch size or participation.
//
// Stability: may change with every release.
package report
