"""Spark's functions by what they mean for incremental results."""

from __future__ import annotations

AGGREGATES = frozenset(
    """
    any any_value approx_count_distinct approx_percentile approx_top_k array_agg avg bit_and bit_or bit_xor
    bitmap_construct_agg bitmap_or_agg bitmap_and_agg bool_and bool_or collect_list collect_set corr count
    count_if count_min_sketch covar_pop covar_samp every first first_value grouping grouping_id
    histogram_numeric hll_sketch_agg hll_union_agg kurtosis kll_sketch_agg_bigint kll_sketch_agg_double
    kll_sketch_agg_float last last_value listagg max max_by mean median min min_by mode percentile
    percentile_approx percentile_cont percentile_disc product regr_avgx regr_avgy regr_count regr_intercept
    regr_r2 regr_slope regr_sxx regr_sxy regr_syy schema_of_variant_agg skewness some std stddev stddev_pop
    stddev_samp string_agg sum theta_sketch_agg theta_union_agg theta_intersection_agg try_avg try_sum
    var_pop var_samp variance vector_avg vector_sum
    """.split()  # noqa: SIM905 a hundred quoted words read worse
)
RANDOM = frozenset(
    """
    rand random randn randstr uniform uuid monotonically_increasing_id spark_partition_id shuffle
    input_file_name input_file_block_start input_file_block_length java_method reflect
    try_reflect
    """.split()  # noqa: SIM905
)
MOMENTS = frozenset(
    """
    now current_date curdate current_timestamp current_time localtimestamp current_timezone current_user
    user session_user current_catalog current_database current_schema current_path version
    """.split()  # noqa: SIM905
)
WITHOUT_BRACKETS = frozenset(
    ("current_date", "current_timestamp", "current_time", "current_user", "session_user", "user")
)
GENERATORS = frozenset(
    """
    explode explode_outer posexplode posexplode_outer inline inline_outer stack json_tuple
    variant_explode variant_explode_outer collations sql_keywords
    """.split()  # noqa: SIM905
)
