package tilt

const maxTheta = 8
