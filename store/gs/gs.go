// Package gs makes gs:// names known to minsep in a program that imports it, for nothing but that:
// Google Cloud Storage, with the application default credentials of the machine.
//
// Stability: stable.
package gs

import _ "minsep/internal/store/gs"
