package pipelines

import (
	_ "minsep/internal/store/gs" // gs://
	_ "minsep/internal/store/s3" // s3://
)
