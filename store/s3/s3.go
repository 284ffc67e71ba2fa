// Package s3 makes s3:// names known to minsep in a program that imports it, for nothing but that:
// Amazon S3 and stores with its protocol, with the settings of the AWS SDK on the machine.
//
// Stability: stable.
package s3

import _ "minsep/internal/store/s3"
