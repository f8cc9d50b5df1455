package main

func goldens(in, out string) {}
