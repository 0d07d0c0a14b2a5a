//! Typed indices: each type says into which list it points, so that it cannot be used with another.

/// One of the file's listeners.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ListenerIndex(usize);

/// One of the file's routes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RouteIndex(usize);

/// One of the file's policies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PolicyIndex(usize);

/// One of the file's upstreams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UpstreamIndex(usize);

/// Converts an index to a number and back, as lists with typed indices require.
macro_rules! convert {
    ($($name:ident)*) => {$(
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

convert! { ListenerIndex RouteIndex PolicyIndex UpstreamIndex }
