//! Which of several: an index says of what, so that none finds a place in another list.

/// Makes a type of index.
macro_rules! index {
    ($($(#[$doc:meta])* $name:ident)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(usize);

        impl From<usize> for $name {
            fn from(index: usize) -> Self {
                Self(index)
            }
        }

        impl From<$name> for usize {
            fn from(index: $name) -> Self {
                index.0
            }
        }
    )*};
}

index! {
    /// One of the file's listeners.
    ListenerIndex
    /// One of the file's routes.
    RouteIndex
    /// One of the file's policies.
    PolicyIndex
    /// One of the file's upstreams.
    UpstreamIndex
}
