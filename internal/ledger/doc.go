// Package ledger keeps the finished units of a verification in files. A verification of days can be
// stopped, killed, moved to another machine and resumed, and ends in the same certificate, byte for
// byte.
//
// A ledger is a folder of two files. protocol.json is the [accounting.Protocol]; it is written
// whole and synced before anything else, so that the claim is fixed before the first sample.
// units.log has one line for each finished unit, in their order, with a checksum; it is written whole
// each time units are added. A unit has a sum for each block of [BlockSize] samples. These are
// integers, so their total does not depend on their order.
//
// Everything in a ledger is public: verification uses no secret.
package ledger
