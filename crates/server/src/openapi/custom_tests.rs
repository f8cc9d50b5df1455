//! Documents of custom resources, checked in themselves and against what kube-apiserver v1.36 published.
