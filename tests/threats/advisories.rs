//! Published advisories of this field, each as a test of its lesson.
